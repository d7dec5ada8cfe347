"""Streams: declarations, what there is to read, sources that fail, and clocks."""
