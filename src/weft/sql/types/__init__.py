"""Typed expressions from syntax trees, by Spark's ANSI rules."""
