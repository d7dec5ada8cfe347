"""Theta candidates against every pair tested by itself, in Python's unlimited integers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InternalError
from weft.kernels.expression.compare import compare
from weft.kernels.join import band_join as theta
from weft.kernels.join.band_join import Bound, bounds_on_times, sortable, theta_pairs
from weft.kernels.join.window_table import TIME_MAX, TIME_MIN

pytestmark = pytest.mark.thorough

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NAMES = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
SMALL = st.integers(-4, 4)
EXTREMES = st.sampled_from([TIME_MIN, TIME_MIN + 1, TIME_MIN + 7, -5, 0, 5, TIME_MAX - 7, TIME_MAX - 1, TIME_MAX])
FLOATS = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 5e-324, 1.0, 2.0**63, math.inf, math.nan, -math.nan])
LIMITS = st.none() | st.integers(-6, 6)
FAR_LIMITS = st.none() | EXTREMES | st.sampled_from([-(2**70), 2**70])
NO_TIMES = np.empty(0, np.int64)


@dataclass(frozen=True)
class Column:
    """Values with NULLs, as a kernel takes them and as Python sees them."""

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None

    def at(self, row: int) -> Any:
        return None if self.valid is not None and not self.valid[row] else self.values[row].item()


@dataclass(frozen=True)
class Case:
    """A join: its sizes, what it asks for, and its times."""

    left_count: int
    right_count: int
    comparisons: tuple[tuple[Column, str, Column], ...]
    left_times: npt.NDArray[np.int64]
    right_times: npt.NDArray[np.int64]
    low: int | None
    high: int | None

    def bounds(self) -> list[Bound]:
        return [
            Bound(left.values, right.values, comparison, left.valid, right.valid)
            for left, comparison, right in self.comparisons
        ]


@st.composite
def columns(draw: st.DrawFn, count: int, values: st.SearchStrategy[Any], dtype: type[np.generic]) -> Column:
    content = np.array(draw(st.lists(values, min_size=count, max_size=count)), dtype)
    flags = draw(st.none() | st.lists(st.booleans(), min_size=count, max_size=count))
    return Column(content, None if flags is None else np.array(flags, np.bool_))


@st.composite
def cases(draw: st.DrawFn, numbers: st.SearchStrategy[int], limits: st.SearchStrategy[int | None]) -> Case:
    """Up to four comparisons with up to two right columns, so that some of them share one."""
    left_count, right_count = draw(st.integers(0, 9)), draw(st.integers(0, 9))

    def column(count: int) -> st.SearchStrategy[Column]:
        return columns(count, numbers, np.int64) | columns(count, FLOATS, np.float64)

    pool = draw(st.lists(column(right_count), min_size=1, max_size=2))
    comparison = st.tuples(column(left_count), st.sampled_from([*OPERATORS]), st.sampled_from(pool))
    comparisons = tuple(draw(st.lists(comparison, max_size=4)))
    times = (np.array(draw(st.lists(numbers, min_size=n, max_size=n)), np.int64) for n in (left_count, right_count))
    left_times, right_times = times
    return Case(left_count, right_count, comparisons, left_times, right_times, draw(limits), draw(limits))


def holds(left: Any, comparison: str, right: Any) -> bool:
    """Spark's comparison: NULL is never true, NaN is the largest and equals itself, integers become doubles."""
    if left is None or right is None:
        return False
    if isinstance(left, float) or isinstance(right, float):
        left, right = ((math.isnan(value), 0.0 if math.isnan(value) else float(value)) for value in (left, right))
    return bool(OPERATORS[comparison](left, right))


def held(number: int) -> int:
    return max(min(number, TIME_MAX), TIME_MIN)


def near(case: Case, a: int, b: int) -> bool:
    low = TIME_MIN if case.low is None else held(case.low)
    high = TIME_MAX if case.high is None else held(case.high)
    return low <= held(int(case.left_times[a]) - int(case.right_times[b])) <= high


def brute_force(case: Case) -> list[tuple[int, int]]:
    return [
        (a, b)
        for a in range(case.left_count)
        for b in range(case.right_count)
        if near(case, a, b) and all(holds(left.at(a), word, right.at(b)) for left, word, right in case.comparisons)
    ]


def pieces_of(case: Case, chunk: int) -> list[list[tuple[int, int]]]:
    found = theta_pairs(
        case.left_count,
        case.right_count,
        case.bounds(),
        left_times=case.left_times,
        right_times=case.right_times,
        low=case.low,
        high=case.high,
        chunk=chunk,
    )
    pieces = list(found)  # all at once: a later piece must not overwrite an earlier one
    assert all(rows.dtype == np.int32 for piece in pieces for rows in piece)
    return [list(zip(left.tolist(), right.tolist(), strict=True)) for left, right in pieces]


def pairs_of(left_count: int, right_count: int, bounds: Sequence[Bound], chunk: int = 1 << 20) -> list[tuple[int, int]]:
    """The pairs of bounds alone."""
    found = theta_pairs(
        left_count,
        right_count,
        bounds,
        left_times=NO_TIMES,
        right_times=NO_TIMES,
        low=None,
        high=None,
        chunk=chunk,
    )
    return [pair for a, b in found for pair in zip(a.tolist(), b.tolist(), strict=True)]


def check(case: Case, *, few: int, chunk: int) -> None:
    """Both ways lead to the same pairs: by trying all of them, and by ranges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theta, "_FEW", few)
        pieces = pieces_of(case, chunk)
    assert all(0 < len(piece) <= chunk for piece in pieces)
    pairs = [pair for piece in pieces for pair in piece]
    assert [a for a, _ in pairs] == sorted(a for a, _ in pairs)
    assert sorted(pairs) == brute_force(case)


@settings(max_examples=200, deadline=None)
@given(case=cases(SMALL, LIMITS), few=st.sampled_from([0, 64]), chunk=st.integers(1, 10))
def test_pairs_are_those_that_satisfy_everything(case: Case, few: int, chunk: int) -> None:
    check(case, few=few, chunk=chunk)


@settings(max_examples=200, deadline=None)
@given(case=cases(EXTREMES, FAR_LIMITS), few=st.sampled_from([0, 64]), chunk=st.integers(1, 10))
def test_nothing_overflows_at_the_ends_of_the_range(case: Case, few: int, chunk: int) -> None:
    check(case, few=few, chunk=chunk)


@settings(max_examples=50, deadline=None)
@given(case=cases(SMALL, st.none()), few=st.sampled_from([0, 64]), chunk=st.integers(1, 10))
def test_without_limits_times_are_not_looked_at(case: Case, few: int, chunk: int) -> None:
    timeless = replace(case, left_times=NO_TIMES, right_times=NO_TIMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theta, "_FEW", few)
        assert pieces_of(timeless, chunk) == pieces_of(case, chunk)


@pytest.mark.parametrize("chunk", [1, 700, 1024, 1025, 1 << 20])
@pytest.mark.parametrize("left_count", [40, 200])
def test_ranges_longer_than_a_block(left_count: int, chunk: int) -> None:
    random = np.random.default_rng(left_count)
    x, y = random.integers(0, 50, left_count), random.random(left_count)
    u, v = random.integers(0, 50, 3000), random.random(3000)
    times, others = random.integers(0, 1000, left_count), random.integers(0, 1000, 3000)
    bounds = [Bound(x, u, "<"), Bound(x + 30, u, ">="), Bound(y, v, ">")]
    found = theta_pairs(
        left_count, 3000, bounds, left_times=times, right_times=others, low=-900, high=-700, chunk=chunk
    )
    distance = np.subtract.outer(times, others)
    expected = np.less.outer(x, u) & np.greater_equal.outer(x + 30, u) & np.greater.outer(y, v)
    expected &= (distance >= -900) & (distance <= -700)
    seen = np.zeros_like(expected, np.int64)
    for a, b in found:
        assert 0 < len(a) <= chunk
        seen[a, b] += 1
    assert (seen == expected).all()


def test_a_selective_band_gives_few_candidates() -> None:
    random = np.random.default_rng(7)
    size = 20_000
    low, values = random.integers(0, 10**9, size), random.integers(0, 10**9, size)
    high = low + 500_000
    ordered = np.sort(values)
    expected = int((np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")).sum())
    found = pairs_of(size, size, [Bound(low, values, "<="), Bound(high, values, ">=")])
    assert len(found) == expected
    assert expected < 20 * size


def test_the_bound_with_the_fewest_candidates_is_walked() -> None:
    """Right rows come in the order of the values that were walked."""
    random = np.random.default_rng(3)
    loose, tight = random.permutation(500), random.permutation(500)
    lefts = np.arange(500)
    bounds = [Bound(lefts, loose, "<"), Bound(lefts, tight, "<="), Bound(lefts + 5, tight, ">=")]
    for order in (bounds, bounds[::-1]):
        found = pairs_of(500, 500, order)
        assert len(found) > 500
        assert [(a, tight[b]) for a, b in found] == sorted((a, tight[b]) for a, b in found)


def test_equality_is_a_band_of_one_value() -> None:
    left, right = np.array([3, 1, 1] * 40), np.array([1, 2, 3, 1])
    found = pairs_of(120, 4, [Bound(left, right, "<="), Bound(left, right, ">=")])
    assert found == [(a, b) for a in range(120) for b in range(4) if left[a] == right[b]]


def test_equal_values_keep_their_order() -> None:
    left, right = np.zeros(100, np.int64), np.random.default_rng(5).integers(0, 3, 1000)
    expected = [(a, b) for a in range(100) for value in (1, 2) for b in range(1000) if right[b] == value]
    assert pairs_of(100, 1000, [Bound(left, right, "<")]) == expected


def test_bounds_on_the_same_values_with_other_nulls_stay_apart() -> None:
    left, right = np.arange(100), np.arange(100)
    even, low = right % 2 == 0, right < 50
    bounds = [Bound(left, right, "<=", None, even), Bound(left + 1, right, ">=", None, low)]
    expected = [(a, b) for a in range(100) for b in (a, a + 1) if b % 2 == 0 and b < 50]
    for few in (0, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(theta, "_FEW", few)
            assert pairs_of(100, 100, bounds) == expected
            assert pairs_of(100, 100, bounds[::-1]) == expected


def test_without_any_bound_all_pairs_come_in_pieces() -> None:
    case = Case(30, 50, (), NO_TIMES, NO_TIMES, None, None)
    pieces = pieces_of(case, 400)
    assert [len(piece) for piece in pieces] == [400, 400, 400, 300]
    assert [pair for piece in pieces for pair in piece] == [(a, b) for a in range(30) for b in range(50)]


@pytest.mark.parametrize(("left_count", "right_count"), [(0, 0), (0, 3), (3, 0)])
def test_empty_inputs_give_nothing(left_count: int, right_count: int) -> None:
    left, right = np.arange(left_count), np.arange(right_count)
    assert pairs_of(left_count, right_count, [Bound(left, right, "<=")]) == []
    assert pairs_of(left_count, right_count, []) == []


def test_times_of_several_relations_share_one_array() -> None:
    """A tuple of two rows within 5 of each: both bands are on the right row's time, so they are used together."""
    first, second, times = np.arange(0, 700, 7), np.arange(3, 703, 7), np.arange(0, 700, 2)
    bands = [*bounds_on_times(first, times, -5, 5), *bounds_on_times(second, times, -5, 5)]
    assert len({id(bound.right) for bound in bands}) == 1
    expected = [
        (a, b) for a in range(100) for b in range(350) if max(abs(t[a] - times[b]) for t in (first, second)) <= 5
    ]
    assert pairs_of(100, 350, bands) == expected


@pytest.mark.parametrize(("low", "high", "count"), [(None, None, 0), (0, None, 1), (None, 0, 1), (-3, 3, 2)])
def test_an_open_end_asks_for_nothing(low: int | None, high: int | None, count: int) -> None:
    times = np.arange(4)
    assert len(bounds_on_times(times, times, low, high)) == count
    assert bounds_on_times(times, times, TIME_MIN, TIME_MAX) == ()


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, np.int64, np.float16, np.float32, np.float64])
def test_any_layout_and_width(dtype: type[np.generic]) -> None:
    left = np.arange(200)[::-2].astype(dtype)[::-1]
    right = np.arange(200).astype(dtype)[::2]
    right.flags.writeable = False
    expected = [(a, b) for a in range(100) for b in range(100) if left[a] < right[b]]
    assert sorted(pairs_of(100, 100, [Bound(left, right, "<")])) == expected


TYPED = [
    (pa.int8(), [-128, 127, 0, None]),
    (pa.int16(), [-5, 300, None, 300]),
    (pa.int32(), [2**31 - 1, -(2**31), None, 0]),
    (pa.int64(), [TIME_MAX, TIME_MIN, None, -1]),
    (pa.uint8(), [255, 0, None, 128]),
    (pa.uint32(), [2**32 - 1, 0, None, 2**31]),
    (pa.bool_(), [True, False, None, True]),
    (pa.float32(), [math.nan, -0.0, 0.0, None, math.inf, -math.inf, 1.5]),
    (pa.float64(), [math.nan, -0.0, 0.0, None, math.inf, -math.inf, 5e-324, -5e-324]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), None, date(1970, 1, 1)]),
    (pa.timestamp("us"), [datetime(1, 1, 1), datetime(1970, 1, 1), None]),  # noqa: DTZ001 - TIMESTAMP_NTZ
    (pa.timestamp("us", "UTC"), [datetime(1960, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC), None]),
    (pa.decimal128(9, 2), [Decimal("-1.05"), Decimal("-1.04"), None, Decimal("9.99")]),
    (pa.decimal128(38, 0), [Decimal(TIME_MAX), Decimal(TIME_MIN), None]),
]


@pytest.mark.parametrize(("type_", "content"), TYPED, ids=[str(type_) for type_, _ in TYPED])
@pytest.mark.parametrize("comparison", [*OPERATORS])
def test_sortable_values_are_in_the_order_of_the_evaluator(
    type_: pa.DataType, content: list[Any], comparison: str
) -> None:
    array = pa.array([*content, *content], type_)
    for form in (array, array.slice(1), pa.chunked_array([array, array.slice(2)]), array.dictionary_encode()):
        values = sortable(form)
        assert values is not None
        data, valid = values
        assert data.dtype in (np.int64, np.float64)
        plain = pa.array(form.to_pylist(), type_)
        rows, count = np.arange(len(form)), len(form)
        left, right = np.repeat(rows, count), np.tile(rows, count)
        answers = compare(NAMES[comparison], plain.take(pa.array(left)), plain.take(pa.array(right))).to_pylist()
        expected = [(a, b) for a, b, true in zip(left.tolist(), right.tolist(), answers, strict=True) if true]
        assert sorted(pairs_of(count, count, [Bound(data, data, comparison, valid, valid)])) == expected


def test_all_null_columns_match_nothing() -> None:
    for array in (pa.nulls(3), pa.nulls(3, pa.int32()), pa.nulls(3, pa.float32()), pa.nulls(3, pa.decimal128(30, 2))):
        values = sortable(array)
        assert values is not None
        assert pairs_of(3, 3, [Bound(values[0], values[0], "<=", values[1], values[1])]) == []


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None]),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([b"a"], pa.large_binary()),
        pa.array([[1]]),
        pa.array([2**63], pa.uint64()),
        pa.array([1], pa.timestamp("ns")),
        pa.array([1], pa.timestamp("s")),
        pa.array([1], pa.date64()),
        pa.array([1], pa.duration("us")),
        pa.array([1], pa.time64("us")),
        pa.array([Decimal(1)], pa.decimal256(40, 0)),
        pa.array([Decimal(0), Decimal(2**63)], pa.decimal128(38, 0)),
        pa.array([Decimal(-(2**63) - 1)], pa.decimal128(20, 0)),
    ],
    ids=lambda array: str(array.type),
)
def test_what_has_no_sortable_values(array: pa.Array) -> None:
    assert sortable(array) is None


def test_a_large_decimal_under_a_null_does_not_count() -> None:
    large = pa.array([Decimal(2**70), Decimal(5)], pa.decimal128(38, 0))
    validity = pa.py_buffer(bytes([0b10]))
    values = sortable(pa.Array.from_buffers(large.type, 2, [validity, large.buffers()[1]]))
    assert values is not None
    assert values[0][1] == 5
    assert values[1] is not None
    assert values[1].tolist() == [False, True]


def test_narrow_decimals_are_sortable() -> None:
    for type_ in (pa.decimal32(5, 2), pa.decimal64(15, 2)):
        values = sortable(pa.array([Decimal("1.50"), Decimal("-2.25")], type_))
        assert values is not None
        assert values[0].tolist() == [150, -225]


@pytest.mark.parametrize("comparison", ["=", "<>", "lt", ""])
def test_other_comparisons_are_no_bounds(comparison: str) -> None:
    with pytest.raises(InternalError, match="gives no bound"):
        Bound(np.arange(2), np.arange(2), comparison)


@pytest.mark.parametrize(
    "values", [np.array(["a"]), np.array([1], "M8[us]"), np.array([1], np.uint64), np.array([None])]
)
def test_other_values_are_no_bounds(values: npt.NDArray[Any]) -> None:
    with pytest.raises(InternalError, match="give no bound"):
        Bound(np.arange(1), values, "<")


def test_shapes_are_checked() -> None:
    with pytest.raises(InternalError, match="shape"):
        Bound(np.zeros((2, 2)), np.arange(2), "<")
    with pytest.raises(InternalError, match="shape"):
        Bound(np.arange(2), np.arange(2), "<", np.ones(3, np.bool_))
    with pytest.raises(InternalError, match="2 by 3 rows"):
        pairs_of(2, 2, [Bound(np.arange(2), np.arange(3), "<")])
    with pytest.raises(InternalError, match="larger than"):
        pairs_of(2**31, 2, [])
