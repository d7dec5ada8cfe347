"""One micro-batch after the other, and what happens to one that fails."""
