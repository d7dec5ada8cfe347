"""Measurements: weft beside plain Structured Streaming on one workload, and deployment of queries under load."""
