"""Syntax becomes typed expressions, by Spark's ANSI rules."""
