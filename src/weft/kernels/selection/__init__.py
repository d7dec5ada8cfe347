"""The predicate index: one pass over a batch gives each row the set of queries that want it."""
