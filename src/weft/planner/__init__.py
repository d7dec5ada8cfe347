"""Pure functions that turn live queries and statistics into the shared plan."""
