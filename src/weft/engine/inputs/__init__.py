"""Streams of an engine: declarations, available input, failing sources, and clocks."""
