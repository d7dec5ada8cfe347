"""Sinks of queries and the threads that deliver to them."""
