"""Names are resolved: relations, columns, join conditions and outputs."""
