"""The demo: generated streams, queries that come and go, a live view, and a check of the results at the end."""
