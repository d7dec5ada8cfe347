"""The rows of one query are found in the shared result log."""
