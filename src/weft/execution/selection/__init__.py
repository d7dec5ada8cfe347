"""Rows of a stream are admitted, given their query-sets and written to the stores."""
