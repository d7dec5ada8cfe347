"""Immutable values: types, expressions, windows, streams, bound queries, strategies and the shared plan."""
