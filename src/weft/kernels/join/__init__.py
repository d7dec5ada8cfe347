"""Join kernels: they find the pairs of rows that some query wants, by equal keys or by ranges of values."""
