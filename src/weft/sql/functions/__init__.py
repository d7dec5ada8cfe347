"""The functions that a query may call, and the limits of their arguments and results."""
