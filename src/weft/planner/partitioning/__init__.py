"""Shared partitioning of streams (SASPAR). The engine does not call this package yet."""
