"""The demo of weft: generated streams, queries that come and go, and a check of their results with DuckDB."""
