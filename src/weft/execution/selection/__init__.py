"""The tag stage: admit rows of a stream, give them query-sets and write them to the stores."""
