"""The functions that a query may call, and the limits on their arguments and results."""
