"""Shared aggregation: fill cells from rows, merge cells, and close windows."""
