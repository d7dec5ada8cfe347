"""Rows, types and slow aggregation in plain Python, for the tests of everything that is made of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from weft.kernels.aggregate import close_windows as close
from weft.kernels.aggregate.cells import Cells, concat_cells
from weft.kernels.aggregate.close_windows import Closing, WindowMerger, in_closing_order
from weft.kernels.aggregate.result_columns import WindowEnd, result_table
from weft.kernels.aggregate.rows_to_cells import Accumulator, Family, RowBatch
from weft.kernels.arrow_types import arrow_type
from weft.kernels.bitset import set_to_words
from weft.plan.aggregation import AggregateCall, Aggregation, Function, GroupKey
from weft.plan.expression import Column, to_sql
from weft.plan.slots import slot_set, words_for
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOATS, INTEGERS, NUMBERS, STRING, TIMESTAMP, DataType, Kind

# Any: values of whatever type a test is about.
Value = Any

LARGEST = 2**63 - 1
NAN = float("nan")
INFINITY = float("inf")
_WIDE = Context(prec=60)


def decimal_type(precision: int, scale: int) -> DataType:
    return DataType(Kind.DECIMAL, precision, scale)


def _decimals(precision: int, scale: int) -> list[Decimal]:
    """Zero, the smallest steps, all nines, and a few between, of both signs."""
    digits = ["0", "1", "9" * precision, "1" + "0" * (precision - 1), "12345"[:precision], "9" * (precision // 2)]
    return [Decimal(sign + each).scaleb(-scale, _WIDE) for each in digits for sign in ("", "-")]


TYPES: dict[DataType, list[Value]] = {
    BOOLEAN: [True, False],
    DataType(Kind.TINYINT): [-128, -1, 0, 7, 127],
    DataType(Kind.INT): [-(2**31), -3, 0, 5, 2**31 - 1],
    BIGINT: [-LARGEST - 1, -(2**32), -1, 0, 1, 2**32 - 1, 2**40, LARGEST],
    DataType(Kind.FLOAT): [-INFINITY, -1.5, -0.0, 0.0, 0.25, 3.0, INFINITY, NAN],
    DOUBLE: [-INFINITY, -1e100, -2.5, -0.0, 0.0, 1e-300, 0.125, 7.75, 1e100, INFINITY, NAN],
    decimal_type(5, 2): _decimals(5, 2),
    decimal_type(18, 4): _decimals(18, 4),
    decimal_type(19, 3): _decimals(19, 3),
    decimal_type(38, 5): _decimals(38, 5),
    STRING: ["", "a", "B", "b", "ä", "\U0001f600", "\uffff", "aa"],
    DataType(Kind.BINARY): [b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00"],
    DATE: [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    TIMESTAMP: [datetime(year, 2, 3, 4, 5, 6, 7, tzinfo=UTC) for year in (1, 1969, 1970, 2024)],
    DataType(Kind.TIMESTAMP_NTZ): [datetime(1969, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 4)],  # noqa: DTZ001
}  # fmt: skip
COUNTED = (Function.COUNT, Function.MIN, Function.MAX, Function.COUNT_DISTINCT, Function.APPROX_DISTINCT)


@st.composite
def typed_values(draw: st.DrawFn, *, most: int) -> tuple[DataType, list[Value]]:
    """A type and some values of it, NULLs among them."""
    type_ = draw(st.sampled_from(list(TYPES)))
    return type_, draw(st.lists(st.none() | st.sampled_from(TYPES[type_]), min_size=1, max_size=most))


def array(type_: DataType, values: Iterable[Value]) -> pa.Array:
    return pa.array(list(values), arrow_type(type_))


def canonical(value: Value) -> Value:
    """Equal for values that are one: NaN is one value, and so are both zeros."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def rank(value: Value) -> Value:
    """In SQL's order: NaN above all numbers, text by its bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


# ---- calls


def calls_for(type_: DataType) -> tuple[AggregateCall, ...]:
    """Every call that takes values of a type (in column v)."""
    argument = Column("v", type_)
    results = {Function.MIN: type_, Function.MAX: type_}
    calls = [AggregateCall(function, (argument,), results.get(function, BIGINT)) for function in COUNTED]
    if type_.kind in NUMBERS:
        calls += [AggregateCall(Function.QUANTILE, (argument,), type_, fraction) for fraction in (0.0, 0.5, 0.9, 1.0)]
    if type_.kind in INTEGERS:
        calls.append(
            AggregateCall(Function.SUM, (argument,), BIGINT if type_.kind is not Kind.BIGINT else decimal_type(38, 0))
        )
    if type_.kind in FLOATS:
        calls.append(AggregateCall(Function.SUM, (argument,), DOUBLE))
        calls.append(AggregateCall(Function.SPREAD, (argument,), DOUBLE))
    if type_.kind is Kind.DECIMAL and type_.precision < 38:
        calls.append(AggregateCall(Function.SUM, (argument,), decimal_type(min(38, type_.precision + 10), type_.scale)))
    return (AggregateCall(Function.ROWS, (None,), BIGINT), *calls)


def accumulators_of(calls: Iterable[AggregateCall]) -> tuple[Accumulator, ...]:
    found = {(call.function, call.argument): Accumulator(call.function, call.argument) for call in calls}
    return tuple(found.values())


def fold(call: AggregateCall, values: Sequence[Value]) -> Value:
    """The value of a call over some arguments, the slow way."""
    given = [value for value in values if value is not None]
    match call.function:
        case Function.ROWS:
            return len(values)
        case Function.COUNT:
            return len(given)
        case Function.COUNT_DISTINCT | Function.APPROX_DISTINCT:
            return len({canonical(value) for value in given})
        case _ if not given:
            return None
        case Function.SUM:
            return _sum(given)
        case Function.MIN | Function.MAX:
            return (min if call.function is Function.MIN else max)(given, key=rank)
        case Function.SPREAD:
            return spread(given)
        case Function.QUANTILE:
            assert call.parameter is not None
            return sorted(given, key=rank)[max(1, math.ceil(call.parameter * len(given))) - 1]


def _sum(given: Sequence[Value]) -> Value:
    total = _exact(given[0])
    for value in given[1:]:
        total = total + _exact(value)
    return total


def _exact(value: Value) -> Value:
    return Fraction(value) if isinstance(value, Decimal) else value


def spread(values: Sequence[float]) -> float:
    """Sum of squared distances from the mean, without any rounding before the end."""
    if not all(math.isfinite(value) for value in values):
        return NAN
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** 2 for value in exact))


def is_same(call: AggregateCall, got: Value, values: Sequence[Value]) -> bool:
    """Whether a value is what a call should give over some arguments, as exactly as the call promises."""
    wanted = fold(call, values)
    if wanted is None or got is None:
        return wanted is None and got is None
    if isinstance(wanted, Fraction):
        return Fraction(got) == wanted
    if call.function is Function.QUANTILE:
        return _is_quantile(got, wanted, values)
    if not isinstance(wanted, float):
        near = 1 + wanted // 20 if call.function is Function.APPROX_DISTINCT else 0
        return bool(abs(got - wanted) <= near) if near else bool(got == wanted)
    if math.isnan(wanted) or math.isnan(got):
        return math.isnan(wanted) and math.isnan(got)
    size = sum(abs(value) for value in values if value is not None)
    slack = 1e-9 * size * size if call.function is Function.SPREAD else 1e-9 * size
    exact = call.function in (Function.MIN, Function.MAX)
    return bool(got == wanted or abs(got - wanted) <= (0 if exact else slack))


def _is_quantile(got: Value, wanted: Value, values: Sequence[Value]) -> bool:
    """A value of the group near the one of that rank; doubles near zero are zero."""
    if all(not math.isfinite(value) for value in (got, wanted)):
        return canonical(got) == canonical(wanted)
    near = abs(Fraction(got) - Fraction(wanted)) <= Fraction(abs(wanted)) * Fraction(11, 1000) + Fraction(1, 10**299)
    return canonical(got) in {canonical(value) for value in values} and near


# ---- rows and cells


@dataclass(frozen=True)
class Row:
    """A row: its time, the slots that want it, its group and its argument."""

    time: int
    slots: int
    group: Value
    value: Value


def batch_of(rows: Sequence[Row], group: DataType, value: DataType, *, slots: int) -> RowBatch:
    """The rows as a store gets them; `slots` is how many there are."""
    words = words_for(slot_set(range(slots)))
    return RowBatch(
        sets=np.stack([set_to_words(row.slots, words) for row in rows]),
        times=np.array([row.time for row in rows], np.int64),
        groups=(array(group, (row.group for row in rows)),),
        arguments={to_sql(Column("v", value)): array(value, (row.value for row in rows))},
    )


def families_of(windows: Mapping[int, tuple[int, int]], *, apart: bool) -> list[Family]:
    """Queries by slot in one family, or each in its own."""
    groups = [[slot] for slot in windows] if apart else [list(windows)]
    return [Family(sum(1 << s for s in each), tuple({windows[s] for s in each}), None) for each in groups]


@dataclass(frozen=True)
class Way:
    """How windows are merged: whole classes at once or cell by cell, and how much of it at once."""

    sparse: float
    targets: int

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Windows are merged this way, whatever would be faster."""
        with patch.object(close, "_SPARSE", self.sparse), patch.object(close, "_MOST_TARGETS", self.targets):
            yield


WAYS = st.builds(Way, st.sampled_from([0.0, 8.0, INFINITY]), st.sampled_from([8, 1 << 20]))


def close_all(
    parts: Sequence[Cells], closings: Iterable[Closing], wanted: Mapping[str, int] | None = None
) -> list[Cells]:
    """The cells of windows that end."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return []
    merger = WindowMerger(parts, wanted)
    return [cells for closing in in_closing_order(closings) for cells in merger.close(closing)]


def finished(
    parts: Sequence[Cells], slot: int, calls: tuple[AggregateCall, ...], end: WindowEnd, groups: tuple[DataType, ...]
) -> dict[tuple[Value, ...], tuple[Value, ...]]:
    """What one query gets: values by window and group; fails if there are two rows for one."""
    mine = []
    for part in parts:
        rows = np.flatnonzero(
            (part.sets[:, slot // 64] >> np.uint64(slot % 64) & np.uint64(1)).astype(bool)[part.classes]
        )
        mine += [part.take(rows)] if len(rows) else []
    if not mine:
        return {}
    keys = tuple(GroupKey(Column(f"k{n}", type_), 0, type_) for n, type_ in enumerate(groups))
    table = result_table(concat_cells(mine), Aggregation(keys, calls), end)
    edges = [table.column(name).cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
    places = zip(*edges, *(table.column(f"g{n}").to_pylist() for n in range(len(groups))), strict=True)
    values = list(zip(*(table.column(f"a{n}").to_pylist() for n in range(len(calls))), strict=True))
    found = {tuple(canonical(part) for part in place): value for place, value in zip(places, values, strict=True)}
    assert len(found) == table.num_rows
    return found
