"""Rule sets and explanations of probe orders (CLASH). The engine does not call this package yet."""
