"""Aggregates over a join without the join, against the join spelled out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cell_cases import INFINITY, NAN, Value, array, canonical, decimal_type, finished, is_same
from weft.kernels import large_text as wide
from weft.kernels.aggregate import factored as module
from weft.kernels.aggregate.cells import LAST, Cells
from weft.kernels.aggregate.factored import FactorSide, PairPlan, Windows, equal_pairs, link_groups, pair_cells
from weft.kernels.aggregate.result_columns import SumOverflow, WindowEnd
from weft.kernels.aggregate.rows_to_cells import Accumulator, Family, RowBatch, rows_to_cells
from weft.plan.aggregation import AggregateCall, Function
from weft.plan.expression import Column, to_sql
from weft.plan.types import BIGINT, DOUBLE, STRING, DataType

TEXT, LONG, REAL, SHORT, WIDE = STRING, BIGINT, DOUBLE, decimal_type(5, 2), decimal_type(19, 3)
COLUMNS: dict[str, DataType] = {"s": TEXT, "n": LONG, "d": REAL, "x": SHORT, "w": WIDE}
VALUES: dict[str, list[Any]] = {
    "s": ["a", "b", "", None],
    "n": [0, 3, -7, 2**62, None],
    "d": [0.5, -2.0, 8.0, None],
    "x": [Decimal("1.25"), Decimal("-999.99"), None],
    "w": [Decimal("9999999999999999.999"), Decimal("-0.001"), None],
}


@dataclass(frozen=True)
class Tuple:
    """A row of one side: what it is joined by, its group, its values by column."""

    key: int
    group: str | None
    values: tuple[Value, ...]

    def value(self, column: str) -> Value:
        return self.values[list(COLUMNS).index(column)]


ARGUMENTS = st.tuples(*(st.sampled_from(values) for values in VALUES.values()))
TUPLES = st.lists(st.builds(Tuple, st.integers(0, 2), st.sampled_from(["g", "h", None]), ARGUMENTS), max_size=7)


def call(
    function: Function, left: str | None, right: str | None, result: DataType, parameter: float | None = None
) -> AggregateCall:
    sides = tuple(None if name is None else Column(name, COLUMNS[name]) for name in (left, right))
    return AggregateCall(function, sides, result, parameter)


LONGEST = decimal_type(38, 0)
CALLS = (
    call(Function.ROWS, None, None, BIGINT),
    call(Function.COUNT, "n", None, BIGINT),
    call(Function.COUNT, "n", "d", BIGINT),
    call(Function.SUM, "n", None, LONGEST),
    call(Function.SUM, None, "x", decimal_type(15, 2)),
    call(Function.SUM, "n", "x", decimal_type(38, 2)),
    call(Function.SUM, "x", "x", decimal_type(21, 4)),
    call(Function.SUM, "w", "x", decimal_type(35, 5)),
    call(Function.SUM, "d", "n", DOUBLE),
    call(Function.SUM, "d", "d", DOUBLE),
    call(Function.MIN, "s", None, STRING),
    call(Function.MAX, None, "s", STRING),
    call(Function.MAX, "w", None, WIDE),
    call(Function.MIN, None, "d", DOUBLE),
    call(Function.SPREAD, "d", None, DOUBLE),
    call(Function.COUNT_DISTINCT, None, "s", BIGINT),
    call(Function.COUNT_DISTINCT, "w", None, BIGINT),
    call(Function.APPROX_DISTINCT, "s", None, BIGINT),
    call(Function.QUANTILE, None, "d", DOUBLE, 0.5),
    call(Function.QUANTILE, "x", None, COLUMNS["x"], 0.9),
    call(Function.QUANTILE, "w", None, WIDE, 0.3),
)


def side_of(rows: list[Tuple], side: int, calls: tuple[AggregateCall, ...] = CALLS, gap: int | None = None) -> Cells:
    """The rows of one side as cells of one window, grouped by join key and group."""
    names = {argument.name for each in calls if isinstance(argument := each.arguments[side], Column)}
    wanted = {
        (each.function, argument.name): Accumulator(each.function, to_sql(argument))
        for each in calls
        if isinstance(argument := each.arguments[side], Column)
    }
    batch = RowBatch(
        sets=np.ones((len(rows), 1), np.uint64),
        times=np.zeros(len(rows), np.int64),
        groups=(array(LONG, (row.key for row in rows)), array(TEXT, (row.group for row in rows))),
        arguments={to_sql(Column(n, COLUMNS[n])): array(COLUMNS[n], (row.value(n) for row in rows)) for n in names},
    )
    cells = rows_to_cells(batch, [Family(1, ((10, 10),), gap)], wanted.values())
    assert cells is not None
    return cells


def argument_of(each: AggregateCall, left: Tuple, right: Tuple) -> Value:
    """The argument of a call in a joined row."""
    given = [
        row.value(column.name)
        for column, row in zip(each.arguments, (left, right), strict=True)
        if isinstance(column, Column)
    ]
    if not given or None in given:
        return None
    first, *rest = given
    for second in rest:
        first = float(first) * float(second) if float in (type(first), type(second)) else _times(first, second)
    return first


def _times(left: Value, right: Value) -> Value:
    return Decimal(int(left * 1000) * int(right * 1000)).scaleb(-6) if isinstance(right, Decimal) else left * right


GROUPINGS = {"both": ((0, 1), (1, 1)), "left": ((0, 1),), "none": (), "turned": ((1, 1), (0, 1))}


@given(left=TUPLES, right=TUPLES, grouping=st.sampled_from(list(GROUPINGS)), at_once=st.sampled_from([1, 1 << 20]))
@settings(max_examples=40)
def test_every_call_over_a_join(left: list[Tuple], right: list[Tuple], grouping: str, at_once: int) -> None:
    if not left or not right:
        return
    keys = GROUPINGS[grouping]
    cells = (side_of(left, 0), side_of(right, 1))
    links = link_groups(*cells, 1)
    sides = [FactorSide(each, link[each.group]) for each, link in zip(cells, links[:2], strict=True)]
    with patch.object(module, "_PAIRS_AT_ONCE", at_once):
        made = pair_cells(sides[0], sides[1], PairPlan(keys, CALLS), Windows(np.zeros(links[2], np.int64)))
    wanted: dict[tuple[Value, ...], list[tuple[Tuple, Tuple]]] = defaultdict(list)
    for pair in ((a, b) for a in left for b in right if a.key == b.key):
        wanted[0, 10, *(canonical(pair[side].group) for side, _ in keys)].append(pair)
    found = {} if made is None else finished([made], 0, CALLS, WindowEnd(10, session=False), (TEXT,) * len(keys))
    assert found.keys() == wanted.keys()
    for place, values in found.items():
        for each, got in zip(CALLS, values, strict=True):
            arguments = [argument_of(each, *pair) for pair in wanted[place]]
            assert is_same(each, got, arguments), (place, each.function, each.argument, got, arguments)


def paired(left: list[Tuple], right: list[Tuple], each: AggregateCall, *, windows: Windows | None = None) -> Cells:
    cells = (side_of(left, 0, (each,)), side_of(right, 1, (each,)))
    links = link_groups(*cells, 1)
    sides = [FactorSide(part, link[part.group]) for part, link in zip(cells, links[:2], strict=True)]
    made = pair_cells(sides[0], sides[1], PairPlan((), (each,)), windows or Windows(np.zeros(links[2], np.int64)))
    assert made is not None
    return made


def tuples(column: str, *values: Value) -> list[Tuple]:
    return [Tuple(0, None, tuple(value if name == column else None for name in COLUMNS)) for value in values]


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        ([2**62, 2**62], [4, 5], 2**63 * 9),
        ([-(2**63)], [-(2**63), 2**63 - 1], 2**63),
        ([2**63 - 1] * 5, [2**63 - 1] * 3, 15 * (2**63 - 1) ** 2),
    ],
)
def test_products_beyond_64_bits_are_exact_or_fail(left: list[int], right: list[int], total: int) -> None:
    made = paired(tuples("n", *left), tuples("n", *right), call(Function.SUM, "n", "n", BIGINT))
    with pytest.raises(SumOverflow):
        finished([made], 0, (call(Function.SUM, "n", "n", BIGINT),), WindowEnd(10, session=False), ())
    if total < 10**38:
        longest = (call(Function.SUM, "n", "n", LONGEST),)
        assert finished([made], 0, longest, WindowEnd(10, session=False), ()) == {(0, 10): (total,)}


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        ([INFINITY], [1.0, -1.0], NAN),
        ([INFINITY], [1.0, 2.0], INFINITY),
        ([NAN], [1.0], NAN),
        ([INFINITY], [None], None),
    ],
)
def test_products_with_infinity(left: list[float], right: list[float | None], total: float | None) -> None:
    each = call(Function.SUM, "d", "d", DOUBLE)
    made = paired(tuples("d", *left), tuples("d", *right), each)
    ((got,),) = finished([made], 0, (each,), WindowEnd(10, session=False), ()).values()
    assert canonical(got) == canonical(total)


def test_infinity_that_meets_only_nulls_leaves_the_other_keys_alone() -> None:
    each = call(Function.SUM, "d", "d", DOUBLE)
    other = [replace(row, key=1) for row in tuples("d", 2.0)]
    made = paired(tuples("d", INFINITY) + other, tuples("d", None) + other, each)
    assert finished([made], 0, (each,), WindowEnd(10, session=False), ()) == {(0, 10): (4.0,)}


def test_sessions_of_several_keys_that_end_apart_are_apart_in_one_group() -> None:
    """Two join keys with sessions [0, 5 + gap) and [0, 9 + gap), grouped by neither."""
    each = call(Function.ROWS, None, None, BIGINT)
    left = [Tuple(key, "g", (None,) * 5) for key in (0, 1, 2)]
    made = paired(left, left, each, windows=Windows(np.zeros(3, np.int64), np.array([5, 9, 5])))
    assert sorted(made.lanes[LAST].tolist()) == [5, 9]
    found = finished([made], 0, (each,), WindowEnd(10, session=True), ())
    assert found == {(0, 15): (2,), (0, 19): (1,)}


@given(
    left=st.lists(st.integers(0, 3), max_size=8), right=st.lists(st.integers(0, 3), max_size=8), most=st.integers(1, 9)
)
def test_all_pairs_of_equal_links(left: list[int], right: list[int], most: int) -> None:
    with patch.object(module, "_PAIRS_AT_ONCE", most):
        parts = list(equal_pairs(np.array(left, np.int64), np.array(right, np.int64)))
    found = [pair for a, b in parts for pair in zip(a.tolist(), b.tolist(), strict=True)]
    assert sorted(found) == [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b]
    assert all(len(a) <= max(most, len(right)) for a, _ in parts)


def test_sides_without_a_key_in_common_join_nothing() -> None:
    left, right = ([Tuple(key, "g", (None,) * 5)] for key in (0, 1))
    cells = (side_of(left, 0), side_of(right, 1))
    *links, count = link_groups(*cells, 1)
    assert count == 2
    sides = [FactorSide(each, link[each.group]) for each, link in zip(cells, links, strict=True)]
    assert pair_cells(sides[0], sides[1], PairPlan((), CALLS), Windows(np.zeros(2, np.int64))) is None


@pytest.mark.parametrize("most", [3, 10**6])
def test_groups_that_are_too_much_text_together_are_wide(most: int) -> None:
    """A long value of one side comes once for each group of the other: 2 GiB are soon reached."""
    left = [Tuple(0, "four", (None,) * len(COLUMNS))]
    right = [Tuple(0, group, (None,) * len(COLUMNS)) for group in "abc"]
    each = call(Function.ROWS, None, None, BIGINT)
    cells = (side_of(left, 0, (each,)), side_of(right, 1, (each,)))
    links = link_groups(*cells, 1)
    sides = [FactorSide(part, link[part.group]) for part, link in zip(cells, links[:2], strict=True)]
    with patch.object(wide, "MOST_BYTES", most):
        made = pair_cells(*sides, PairPlan(((0, 1), (1, 1)), (each,)), Windows(np.zeros(links[2], np.int64)))
    assert made is not None
    assert [column.to_pylist() for column in made.groups] == [["four"] * 3, ["a", "b", "c"]]
    assert made.groups[0].type == (pa.large_string() if most == 3 else pa.string())
    found = finished([made], 0, (each,), WindowEnd(10, session=False), (TEXT, TEXT))
    assert found == {(0, 10, "four", group): (1,) for group in "abc"}
