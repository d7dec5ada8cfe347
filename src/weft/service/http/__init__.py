"""The HTTP interface: routes, shapes of answers, errors, metrics."""
