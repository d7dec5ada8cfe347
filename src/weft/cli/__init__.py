"""`weft`: queries and streams of a service or a state directory, the service itself, the demo and the benchmarks."""

from weft.cli.app import main

__all__ = ["main"]
