"""Mergeable sketches. Their results do not depend on the order, batching or partitioning of the rows.

Distinct values are estimated by HyperLogLog with 2^12 registers (standard error 1.6 %); a cell keeps only the registers
that were hit. Quantiles are estimated by a histogram with logarithmic buckets of 1 %. A bucket keeps its greatest
value, so an estimate is a value of the group within 1 % of the exact quantile.
"""

from __future__ import annotations

from math import log

import numba as nb
import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

REGISTER_BITS = 12
REGISTERS = 1 << REGISTER_BITS
_ALPHA = 0.7213 / (1 + 1.079 / REGISTERS)

_ACCURACY = 0.005
_GAMMA = (1 + _ACCURACY) / (1 - _ACCURACY)
_LOG_GAMMA = log(_GAMMA)
_TO_MIDDLE = log(2.0 / (_GAMMA + 1.0))
_SMALLEST = 1e-300
"""Values closer to zero than this count as zero."""
_ZERO = 0
_SHIFT = 1 << 20
"""Offset of bucket numbers, far above the number of buckets between the smallest and the largest double."""
_INFINITE, _NAN = 2 * _SHIFT, 3 * _SHIFT


@nb.njit(cache=True, nogil=True)
def hll_codes(hashes: npt.NDArray[np.uint64]) -> tuple[Longs, Longs]:
    """Return the register of each hash and the position of the first set bit behind the register bits."""
    registers, ranks = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
    for i in range(len(hashes)):
        hash_ = hashes[i]
        registers[i] = np.int64(hash_ >> np.uint64(64 - REGISTER_BITS))
        remaining = (hash_ << np.uint64(REGISTER_BITS)) | np.uint64((1 << REGISTER_BITS) - 1)
        rank = 1
        while not remaining >> np.uint64(63):
            remaining <<= np.uint64(1)
            rank += 1
        ranks[i] = rank
    return registers, ranks


def hll_estimates(groups: Longs, ranks: Longs, count: int) -> Longs:
    """Estimate the number of distinct values of each of `count` groups from the (group, rank) of the registers hit."""
    hit = np.bincount(groups, minlength=count).astype(np.float64)
    harmonic = np.bincount(groups, weights=np.exp2(-ranks.astype(np.float64)), minlength=count) + (REGISTERS - hit)
    raw = _ALPHA * REGISTERS * REGISTERS / harmonic
    empty = REGISTERS - hit
    with np.errstate(divide="ignore"):
        linear = REGISTERS * np.log(REGISTERS / empty)
    small = (raw <= 2.5 * REGISTERS) & (empty > 0)
    return np.rint(np.where(small, linear, raw)).astype(np.int64)


def histogram_codes(values: Doubles) -> Longs:
    """Return the bucket of each value. Buckets are in the order of the values, NaN last as in Spark."""
    size = np.abs(values)
    finite = np.isfinite(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = (
            np.ceil(np.log(np.where(finite & (size >= _SMALLEST), size, 1.0)) / _LOG_GAMMA).astype(np.int64) + _SHIFT
        )
    codes = np.where(size < _SMALLEST, _ZERO, np.where(values < 0, -steps, steps))
    codes = np.where(np.isinf(values), np.where(values < 0, -_INFINITE, _INFINITE), codes)
    return np.where(np.isnan(values), _NAN, codes)


def histogram_values(codes: Longs) -> Doubles:
    """Return the middle of each bucket."""
    steps = np.abs(codes) - _SHIFT
    with np.errstate(over="ignore"):
        middles = np.exp(np.clip(steps, -_SHIFT, _SHIFT) * _LOG_GAMMA + _TO_MIDDLE)
    middles = np.minimum(middles, np.finfo(np.float64).max)  # the last bucket extends beyond the largest double
    values = np.where(codes < 0, -middles, middles)
    values = np.where(codes == _ZERO, 0.0, values)
    values = np.where(np.abs(codes) == _INFINITE, np.where(codes < 0, -np.inf, np.inf), values)
    return np.where(codes == _NAN, np.nan, values)


@nb.njit(cache=True, nogil=True)
def quantile_codes(groups: Longs, codes: Longs, weights: Longs, count: int, fraction: float) -> Longs:
    """Return for each group the bucket of the value of rank ceil(fraction * n). Entries are sorted by (group, code)."""
    total = np.zeros(count, np.int64)
    for i in range(len(groups)):
        total[groups[i]] += weights[i]
    out = np.zeros(count, np.int64)
    seen = np.zeros(count, np.int64)
    for i in range(len(groups)):
        g = groups[i]
        rank = max(1, np.int64(np.ceil(fraction * total[g])))
        if seen[g] < rank:
            out[g] = codes[i]
        seen[g] += weights[i]
    return out


@nb.njit(cache=True, nogil=True)
def find_entries(groups: Longs, codes: Longs, wanted_groups: Longs, wanted_codes: Longs) -> Longs:
    """Return the place of each wanted (group, code) among the entries, or -1; both are sorted by (group, code)."""
    places = np.full(len(wanted_groups), -1, np.int64)
    entry = 0
    for i in range(len(wanted_groups)):
        g, code = wanted_groups[i], wanted_codes[i]
        while entry < len(groups) and (groups[entry] < g or (groups[entry] == g and codes[entry] < code)):
            entry += 1
        if entry < len(groups) and groups[entry] == g and codes[entry] == code:
            places[i] = entry
    return places
