"""Execution of micro-batches, and the handling of those that fail."""
