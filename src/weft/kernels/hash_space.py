"""Partitions as contiguous ranges of the 64-bit hash space: a row's partition follows from its place in the order."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import InternalError


def hash_range(partition: int, partitions: int) -> tuple[int, int]:
    """Smallest and largest hash of a partition; the ranges of all partitions cover the space without gaps."""
    if not 0 <= partition < partitions:
        raise InternalError(f"partition {partition} is not one of {partitions}")
    low = -(-(partition << 64) // partitions)
    high = -(-((partition + 1) << 64) // partitions) - 1
    return low, high


def range_in(hashes: np.ndarray[Any, np.dtype[np.uint64]], low: int, high: int) -> tuple[int, int]:
    """Where in sorted hashes those from `low` to `high` begin and end."""
    start = int(np.searchsorted(hashes, np.uint64(low), side="left"))
    return start, int(np.searchsorted(hashes, np.uint64(high), side="right"))
