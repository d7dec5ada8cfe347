"""Exact sums of any size: 32-bit limbs in lanes, and Python integers only where 64 bits may overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LIMB_BITS = 32
_LIMB = (1 << _LIMB_BITS) - 1
_SAFE = 2.0**62
_MOST_LIMBS = 10
"""Enough for the product of two sums of 2^31 decimals with 38 digits."""


def sum_of(lanes: Mapping[str, Array], argument: str) -> Array | None:
    """Return the sums in the lanes of an argument as 64-bit or Python integers, or None if it has no such lanes."""
    limbs = [lanes[name] for i in range(_MOST_LIMBS) if (name := f"sum{i}:{argument}") in lanes]
    if not limbs:
        return None
    magnitude = sum(np.abs(limb.astype(np.float64)) * 2.0 ** (_LIMB_BITS * i) for i, limb in enumerate(limbs))
    if len(limbs) == 1 or float(np.max(magnitude, initial=0.0)) < _SAFE:
        total = limbs[0].copy()
        for i, limb in enumerate(limbs[1:2], 1):
            total += limb << np.int64(_LIMB_BITS * i)
        return total if len(limbs) <= 2 else _whole(limbs)
    return _whole(limbs)


def _whole(limbs: list[Array]) -> Array:
    total: Array = limbs[0].astype(object)
    for i, limb in enumerate(limbs[1:], 1):
        total = total + limb.astype(object) * (1 << (_LIMB_BITS * i))
    return total


def times(left: Array, right: Array) -> Array:
    """Return the products, as Python integers if one may overflow 64 bits."""
    if object not in (left.dtype, right.dtype):
        largest = float(np.max(np.abs(left.astype(np.float64)), initial=0.0))
        if largest * float(np.max(np.abs(right.astype(np.float64)), initial=0.0)) < _SAFE:
            product: Array = left * right
            return product
    exact: Array = left.astype(object) * right.astype(object)
    return exact


def to_limbs(values: Array, argument: str) -> dict[str, Array]:
    """Return the lanes of an argument that hold these integers."""
    if values.dtype != object:
        low, high = values & np.int64(_LIMB), values >> np.int64(_LIMB_BITS)
        return {f"sum0:{argument}": low, f"sum1:{argument}": high}
    lanes = {}
    remaining = [int(value) for value in values]
    for i in range(_MOST_LIMBS):
        last = i == _MOST_LIMBS - 1
        lanes[f"sum{i}:{argument}"] = np.array([value if last else value & _LIMB for value in remaining], np.int64)
        remaining = [value >> _LIMB_BITS for value in remaining]
    return lanes
