"""Unit tests use no Spark, no sleep and no network. A test that tries one of them fails."""

from __future__ import annotations

from tests.support.alone import alone, pytest_collection_modifyitems

__all__ = ["alone", "pytest_collection_modifyitems"]
