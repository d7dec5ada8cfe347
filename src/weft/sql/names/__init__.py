"""Name resolution: relations, columns, join conditions and outputs."""
