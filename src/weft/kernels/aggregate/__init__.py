"""Cells of shared aggregation: filled from rows, merged, and closed into the results of windows."""
