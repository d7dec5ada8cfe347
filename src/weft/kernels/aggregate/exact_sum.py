"""Exact sums of any size: 32-bit limbs in lanes, Python integers only where 64 bits may not do."""

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
    """The sums in the lanes of an argument as 64-bit or Python integers; None if there are none."""
    limbs = [lanes[name] for at in range(_MOST_LIMBS) if (name := f"sum{at}:{argument}") in lanes]
    if not limbs:
        return None
    size = sum(np.abs(limb.astype(np.float64)) * 2.0 ** (_LIMB_BITS * at) for at, limb in enumerate(limbs))
    if len(limbs) == 1 or float(np.max(size, initial=0.0)) < _SAFE:
        total = limbs[0].copy()
        for at, limb in enumerate(limbs[1:2], 1):
            total += limb << np.int64(_LIMB_BITS * at)
        return total if len(limbs) <= 2 else _whole(limbs)
    return _whole(limbs)


def _whole(limbs: list[Array]) -> Array:
    total: Array = limbs[0].astype(object)
    for at, limb in enumerate(limbs[1:], 1):
        total = total + limb.astype(object) * (1 << (_LIMB_BITS * at))
    return total


def times(left: Array, right: Array) -> Array:
    """The products, in Python integers if 64 bits may not hold one."""
    if object not in (left.dtype, right.dtype):
        largest = float(np.max(np.abs(left.astype(np.float64)), initial=0.0))
        if largest * float(np.max(np.abs(right.astype(np.float64)), initial=0.0)) < _SAFE:
            product: Array = left * right
            return product
    whole: Array = left.astype(object) * right.astype(object)
    return whole


def to_limbs(values: Array, argument: str) -> dict[str, Array]:
    """The lanes that hold these integers."""
    if values.dtype != object:
        low, high = values & np.int64(_LIMB), values >> np.int64(_LIMB_BITS)
        return {f"sum0:{argument}": low, f"sum1:{argument}": high}
    lanes = {}
    rest = [int(value) for value in values]
    for at in range(_MOST_LIMBS):
        last = at == _MOST_LIMBS - 1
        lanes[f"sum{at}:{argument}"] = np.array([v if last else v & _LIMB for v in rest], np.int64)
        rest = [v >> _LIMB_BITS for v in rest]
    return lanes
