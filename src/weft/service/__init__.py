"""The long-running service: one engine for a team, over HTTP."""
