"""Queries: requests, names, records and bound forms."""
