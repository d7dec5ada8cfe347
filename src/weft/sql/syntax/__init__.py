"""From text to syntax: tokens, clauses, literals and durations."""
