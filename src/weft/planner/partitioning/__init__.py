"""Shared partitioning (SASPAR). The engine does not call this package yet."""
