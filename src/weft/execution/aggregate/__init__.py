"""Rows become cells of slices, and windows that have ended become results."""
