"""GROUP BY, aggregate calls, and the outputs of an aggregation."""
