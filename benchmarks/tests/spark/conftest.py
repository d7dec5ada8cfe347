"""The Spark of weft's tests, also for the tests of the benchmark."""

from __future__ import annotations

from tests.spark.conftest import place, spark

__all__ = ["place", "spark"]
