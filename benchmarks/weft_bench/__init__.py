"""Benchmarks of weft: systems side by side on the same workloads, and programs that measure parts of weft."""
