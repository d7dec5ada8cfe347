"""Reading the rows of one query from the shared result log."""
