"""The guard of the unit tests of weft also guards those of the benchmark."""

from __future__ import annotations

from tests.support.alone import alone, pytest_collection_modifyitems

__all__ = ["alone", "pytest_collection_modifyitems"]
