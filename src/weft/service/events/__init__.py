"""Server-sent events: committed rows and ticks."""
