"""The predicate index, which computes the query-set of every row of a batch in one pass."""
