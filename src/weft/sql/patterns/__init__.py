"""Regular expressions: read as Java reads them, written for RE2, which matches in linear time."""
