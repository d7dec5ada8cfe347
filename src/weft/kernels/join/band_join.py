"""Candidate pairs of a join by comparisons and time bands. No pair is missing, each comes once, and few are false.

Each condition on one array of right values (a comparison, BETWEEN, a time band) becomes an interval of integer keys
per left row, so the right rows that it admits are one range of the right rows in the order of that array. The join
walks the array with the fewest candidates and tests each candidate against the intervals of all other arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from weft.errors import InternalError
from weft.kernels.expression.values import fixed_values, flat, valid_rows
from weft.kernels.join.window_table import Times
from weft.kernels.key_hash import frozen
from weft.kernels.selection.loops import float_keys
from weft.plan.time import TIME_MAX, TIME_MIN

Array: TypeAlias = npt.NDArray[Any]
Flags: TypeAlias = npt.NDArray[np.bool_]
Longs: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = npt.NDArray[np.int32]

_COMPARISONS = ("<", "<=", ">", ">=")
_MAX_ROWS = 2**31 - 1
_FEW = 64
"""Up to this many left rows, testing all right rows is faster than sorting them."""
_BLOCK = 1024
"""The number of right rows that are tested at a time; in most blocks, no row passes."""
_DECIMAL = np.dtype([("low", "<i8"), ("high", "<i8")])
_FLOATS: dict[int, npt.DTypeLike] = {16: np.float16, 32: np.float32, 64: np.float64}


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The condition `left <comparison> right` on a pair; it is false if a side is not valid (flags of None: all valid).

    Values are booleans, integers or floats of the same meaning on both sides (decimals: of the same scale), compared as
    in Spark. Bounds with the same objects `right` and `right_valid` are used together: two of them form a BETWEEN.
    """

    left: Array
    right: Array
    comparison: str
    left_valid: Flags | None = None
    right_valid: Flags | None = None

    def __post_init__(self) -> None:
        if self.comparison not in _COMPARISONS:
            raise InternalError(f'comparison "{self.comparison}" gives no bound')
        for values, valid in ((self.left, self.left_valid), (self.right, self.right_valid)):
            if values.dtype.kind not in "biuf" or values.dtype == np.uint64:
                raise InternalError(f"values of type {values.dtype} give no bound")
            if values.ndim != 1 or (valid is not None and valid.shape != values.shape):
                raise InternalError(f"a bound has values of shape {values.shape} that do not fit")


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """The condition on one right array: lows[a] <= keys[b] <= highs[a] and valid[b]; no b qualifies if lows > highs."""

    lows: Longs
    highs: Longs
    keys: Longs
    valid: Flags | None


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """An order of the right rows, in which positions starts[k]:ends[k] are the candidates of left row k."""

    order: npt.NDArray[np.intp]
    starts: Longs
    ends: Longs

    @property
    def count(self) -> int:
        """The number of candidates."""
        return int(np.sum(self.ends - self.starts))


def sortable(array: pa.Array | pa.ChunkedArray) -> tuple[Array, Flags | None] | None:
    """Return values whose numpy order is Spark's order, and their validity (None: all valid).

    Integers, dates, timestamps, booleans and decimals that fit become int64, floats float64; return None for all other
    arrays. Values of two arrays are comparable if their types are the same or differ only in width. Values under NULLs
    are arbitrary.
    """
    kind = array.type.value_type if pt.is_dictionary(array.type) else array.type
    if not any(is_known(kind) for is_known in _KNOWN):
        return None
    plain = flat(array)
    values = _numbers(plain)
    return None if values is None else (values, valid_rows(plain))


def bounds_on_times(left_times: Times, right_times: Times, low: int | None, high: int | None) -> tuple[Bound, ...]:
    """Return low <= t_left - t_right <= high as bounds on `right_times`; None or an end of the time range is no limit.

    Limits and distances beyond the time range are clamped to its ends, as in the merge join.
    """
    low = TIME_MIN if low is None else max(min(low, TIME_MAX), TIME_MIN)
    high = TIME_MAX if high is None else max(min(high, TIME_MAX), TIME_MIN)
    bounds = []
    if low > TIME_MIN:
        newest, below, _ = _minus(left_times, low)
        bounds.append(Bound(newest, right_times, ">=", ~below))
    if high < TIME_MAX:
        oldest, _, above = _minus(left_times, high)
        bounds.append(Bound(oldest, right_times, "<=", ~above))
    return tuple(bounds)


def theta_pairs(
    left_count: int,
    right_count: int,
    bounds: Sequence[Bound],
    *,
    left_times: Times,
    right_times: Times,
    low: int | None,
    high: int | None,
    chunk: int = 1 << 20,
) -> Iterator[tuple[Rows, Rows]]:
    """Yield all pairs of rows that satisfy every bound and low <= t_left - t_right <= high (`time_bounds`).

    Each pair comes once, ascending by left row, in nonempty pieces of at most `chunk` pairs. Without limits the times
    are not read. Equal arguments give equal pieces.
    """
    if max(left_count, right_count) > _MAX_ROWS:
        raise InternalError(f"a join of {left_count} by {right_count} rows is larger than {_MAX_ROWS}")
    if left_count == 0 or right_count == 0:
        return
    all_bounds = [*bounds, *bounds_on_times(left_times, right_times, low, high)]
    for bound in all_bounds:
        if len(bound.left) != left_count or len(bound.right) != right_count:
            raise InternalError(
                f"a bound has {len(bound.left)} by {len(bound.right)} rows of {left_count}, {right_count}"
            )
    axes = _to_axes(all_bounds)
    lefts, rights = _alive(axes, left_count, right_count)
    if len(lefts) == 0 or len(rights) == 0:
        return
    axes = [_Axis(axis.lows[lefts], axis.highs[lefts], axis.keys[rights], None) for axis in axes]
    walk, others = _cheapest(axes, len(lefts), len(rights))
    yield from _pieces(walk, others, frozen(lefts, np.int32), frozen(rights[walk.order], np.int32), chunk=chunk)


def _numbers(array: pa.Array) -> Array | None:
    kind = array.type
    if pt.is_null(kind):
        return np.zeros(len(array), np.int64)
    if pt.is_boolean(kind):
        return fixed_values(array.cast(pa.uint8()), np.uint8).astype(np.int64)
    if pt.is_floating(kind):
        with np.errstate(invalid="ignore"):  # signalling NaNs, and arbitrary values under NULLs
            return fixed_values(array, _FLOATS[kind.bit_width]).astype(np.float64, copy=False)
    if pt.is_decimal(kind):
        halves = fixed_values(array.cast(pa.decimal128(kind.precision, kind.scale)), _DECIMAL)
        fits = halves["high"] == halves["low"] >> 63
        valid = valid_rows(array)
        return np.ascontiguousarray(halves["low"]) if np.all(fits if valid is None else fits | ~valid) else None
    sign = "u" if pt.is_unsigned_integer(kind) else "i"
    return fixed_values(array, f"{sign}{kind.byte_width}").astype(np.int64, copy=False)


# Other units of time would need rounding to be comparable, and rounded values do not bound exact ones.
_KNOWN = (
    pt.is_null,
    pt.is_boolean,
    pt.is_signed_integer,
    lambda kind: pt.is_unsigned_integer(kind) and kind.bit_width < 64,
    pt.is_floating,
    pt.is_date32,
    lambda kind: pt.is_timestamp(kind) and kind.unit == "us",
    lambda kind: pt.is_decimal(kind) and not pt.is_decimal256(kind),
)


def _minus(times: Times, distance: int) -> tuple[Times, Flags, Flags]:
    """Return times - distance clamped to the time range, and flags for the times that would lie below and above it."""
    below, above = times < TIME_MIN + max(distance, 0), times > TIME_MAX + min(distance, 0)
    shifted = times - np.int64(distance)  # overflows only where the next line replaces the value
    shifted[below], shifted[above] = TIME_MIN, TIME_MAX
    return shifted, below, above


def _to_axes(bounds: Sequence[Bound]) -> list[_Axis]:
    """Return one axis for each right array, which combines all bounds on the array."""
    groups: defaultdict[tuple[int, int, bool], list[Bound]] = defaultdict(list)
    for bound in bounds:
        floating = "f" in (bound.left.dtype.kind, bound.right.dtype.kind)
        groups[id(bound.right), id(bound.right_valid), floating].append(bound)
    return [_to_axis(group, floating=floating) for (_, _, floating), group in groups.items()]


def _to_axis(bounds: Sequence[Bound], *, floating: bool) -> _Axis:
    count = len(bounds[0].left)
    lows, highs = np.full(count, TIME_MIN), np.full(count, TIME_MAX)
    for bound in bounds:
        keys = _to_keys(bound.left, floating=floating)
        unsatisfiable = np.zeros(count, np.bool_) if bound.left_valid is None else ~bound.left_valid
        match bound.comparison:
            case "<=":
                np.maximum(lows, keys, out=lows)
            case "<":
                unsatisfiable |= keys == TIME_MAX
                np.maximum(lows, keys + np.int64(1), out=lows)
            case ">=":
                np.minimum(highs, keys, out=highs)
            case _:
                unsatisfiable |= keys == TIME_MIN
                np.minimum(highs, keys - np.int64(1), out=highs)
        lows[unsatisfiable], highs[unsatisfiable] = TIME_MAX, TIME_MIN
    return _Axis(lows, highs, _to_keys(bounds[0].right, floating=floating), bounds[0].right_valid)


def _to_keys(values: Array, *, floating: bool) -> Longs:
    """Return integers in the order of the values; integers are compared with floats as floats, as in Spark."""
    if not floating:
        return values.astype(np.int64, copy=False)
    with np.errstate(invalid="ignore"):
        bits = frozen(values, np.float64).view(np.int64)
    keys = np.empty(len(values), np.int64)
    float_keys(bits, keys)
    return keys


def _alive(axes: Sequence[_Axis], left_count: int, right_count: int) -> tuple[Array, Array]:
    """Return the left rows without an empty interval, and the valid right rows within the hull of their intervals."""
    lefts, rights = np.ones(left_count, np.bool_), np.ones(right_count, np.bool_)
    for axis in axes:
        lefts &= axis.lows <= axis.highs
    for axis in axes if lefts.any() else ():
        rights &= (axis.keys >= axis.lows[lefts].min()) & (axis.keys <= axis.highs[lefts].max())
        if axis.valid is not None:
            rights &= axis.valid
    return np.flatnonzero(lefts), np.flatnonzero(rights)


def _cheapest(axes: Sequence[_Axis], left_count: int, right_count: int) -> tuple[_Walk, list[_Axis]]:
    """Return the walk with the fewest candidates, and the axes that it leaves to be tested."""
    full_walk = _Walk(np.arange(right_count), np.zeros(left_count, np.int64), np.full(left_count, right_count))
    if left_count <= _FEW or not axes:
        return full_walk, list(axes)
    walks = [_walk_of(axis) for axis in axes]
    best = min(range(len(axes)), key=lambda number: walks[number].count)
    return walks[best], [axis for number, axis in enumerate(axes) if number != best]


def _walk_of(axis: _Axis) -> _Walk:
    # The sort is stable, so that a retried task finds its pairs in the same order on every machine.
    order = np.argsort(axis.keys, kind="stable")
    keys = axis.keys[order]
    return _Walk(order, np.searchsorted(keys, axis.lows, "left"), np.searchsorted(keys, axis.highs, "right"))


def _pieces(
    walk: _Walk, axes: Sequence[_Axis], lefts: Rows, rights: Rows, *, chunk: int
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the candidates of a walk that the axes admit, as row numbers; `rights` are in the order of the walk."""
    ranges = frozen(walk.starts, np.int64), frozen(walk.ends, np.int64)
    tests = (
        _rows([axis.lows for axis in axes], len(lefts)),
        _rows([axis.highs for axis in axes], len(lefts)),
        _rows([axis.keys[walk.order] for axis in axes], len(rights)),
    )
    capacity = max(1, min(chunk, walk.count))
    state = np.zeros(2, np.int64)
    while state[0] < len(lefts):
        ia, ib = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
        count = _fill(ranges, tests, (lefts, rights), state, (ia, ib))
        if count:
            yield ia[:count], ib[:count]


def _rows(arrays: Sequence[Longs], width: int) -> Longs:
    return frozen(np.array(arrays, np.int64).reshape(len(arrays), width), np.int64)


@nb.njit(cache=True, nogil=True)
def _fill(
    ranges: tuple[Longs, Longs],
    tests: tuple[Longs, Longs, Longs],
    rows: tuple[Rows, Rows],
    state: Longs,
    out: tuple[Rows, Rows],
) -> int:
    """Write pairs until the output is full or the ranges are exhausted; return the number of pairs.

    `state` is where to resume: the left row (past the end when done) and the next position to test.
    """
    starts, ends = ranges
    lefts, rights = rows
    ia, ib = out
    i, m = state
    n = 0
    hits = np.empty(_BLOCK, np.bool_)
    while i < len(starts):
        m = max(m, starts[i])
        while m < ends[i] and n < len(ia):
            # Test no more rows than there is room for: each pair is written before it is known to count.
            size = min(ends[i] - m, len(ia) - n)
            if len(tests[0]) == 0:
                for k in range(size):
                    ia[n + k], ib[n + k] = lefts[i], rights[m + k]
                n += size
            else:
                size = min(size, _BLOCK)
                if _test(tests, i, m, hits[:size]):
                    for k in range(size):
                        ia[n], ib[n] = lefts[i], rights[m + k]
                        n += hits[k]
            m += size
        if m < ends[i]:
            break
        i += 1
        m = 0
    state[:] = i, m
    return n


@nb.njit(cache=True, nogil=True)
def _test(tests: tuple[Longs, Longs, Longs], i: int, m: int, hits: Flags) -> int:
    """Set hits[k] if left row i admits the right row at m + k; return the number of hits. Compiles to vector code."""
    lows, highs, keys = tests
    hits[:] = True
    for axis in range(len(lows)):
        low, high, axis_keys = lows[axis, i], highs[axis, i], keys[axis, m : m + len(hits)]
        for k in range(len(hits)):
            hits[k] &= (low <= axis_keys[k]) & (axis_keys[k] <= high)
    count = 0
    for k in range(len(hits)):
        count += hits[k]
    return count
