"""Partitions as contiguous ranges of the 64-bit hash space, so rows in hash order are also in partition order."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import InternalError


def hash_range(partition: int, partitions: int) -> tuple[int, int]:
    """Return the smallest and largest hash of a partition; all ranges together cover the space without gaps."""
    if not 0 <= partition < partitions:
        raise InternalError(f"partition {partition} is not one of {partitions}")
    low = -(-(partition << 64) // partitions)
    high = -(-((partition + 1) << 64) // partitions) - 1
    return low, high


def range_in(hashes: np.ndarray[Any, np.dtype[np.uint64]], low: int, high: int) -> tuple[int, int]:
    """Return the start and end positions of the hashes from `low` to `high`, both included, in a sorted array."""
    start = int(np.searchsorted(hashes, np.uint64(low), side="left"))
    return start, int(np.searchsorted(hashes, np.uint64(high), side="right"))
