"""Aggregation: rows become cells of slices, and windows become results when they close."""
