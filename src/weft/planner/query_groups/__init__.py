"""Groups of queries that share a join (AJoin). The engine does not call this package yet."""
