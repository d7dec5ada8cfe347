"""From text to syntax trees: tokens, clauses, literals and durations."""
