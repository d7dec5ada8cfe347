"""Immutable values: types, expressions, windows, streams, bound queries and the shared plan."""
