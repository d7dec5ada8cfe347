"""Pairs of rows that some query wants, by key or by sorted values."""
