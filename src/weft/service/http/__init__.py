"""The HTTP interface: routes, response types, errors and metrics."""
