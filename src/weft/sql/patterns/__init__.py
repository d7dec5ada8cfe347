"""Regular expressions in Java's syntax, translated for RE2, which matches in linear time."""
