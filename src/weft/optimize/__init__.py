"""Decisions as pure functions: live queries in, shared plan out."""
