"""The result log: the rows of one query, retention of result files, and leases of their readers."""
