"""Probe orders and probe trees of joins, chosen for all queries together."""
