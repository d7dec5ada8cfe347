"""From cells to a result: types, NULLs, and sums that do not fit."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tests.support.cell_cases import TYPES, array, calls_for, decimal_type
from weft.kernels.aggregate.cells import LAST, ROWS, Array, Cells
from weft.kernels.aggregate.exact_sum import to_limbs
from weft.kernels.aggregate.result_columns import SumOverflow, WindowEnd, result_schema, result_table
from weft.kernels.aggregate.rows_to_cells import Accumulator, Family, RowBatch, rows_to_cells
from weft.kernels.arrow_types import arrow_type
from weft.kernels.bitset import set_to_words
from weft.plan.aggregation import AggregateCall, Aggregation, Function, GroupKey
from weft.plan.expression import Column
from weft.plan.types import BIGINT, DOUBLE, STRING, DataType

END = WindowEnd(10, session=False)


def cells_with(lanes: dict[str, Array], *, slices: list[int] | None = None) -> Cells:
    """Cells of one group, one per slice."""
    count = len(next(iter(lanes.values())))
    nowhere = np.zeros(count, np.int64)
    starts = np.arange(count) if slices is None else np.array(slices)
    return Cells(
        (array(STRING, ["g"]),), 1, set_to_words(1, 1)[None, :], starts, nowhere, nowhere, {ROWS: nowhere + 1, **lanes}
    )


def sums(values: list[int], call: AggregateCall) -> pa.Table:
    """The result of a call over cells that hold these sums."""
    lanes = to_limbs(np.array(values, object), call.argument)
    keys = (GroupKey(Column("k", STRING), 0, STRING),)
    return result_table(
        cells_with({**lanes, f"count:{call.argument}": np.ones(len(values), np.int64)}), Aggregation(keys, (call,)), END
    )


def sum_call(type_: DataType, result: DataType, other: DataType | None = None) -> AggregateCall:
    arguments = (Column("v", type_),) if other is None else (Column("v", type_), Column("w", other))
    return AggregateCall(Function.SUM, arguments, result)


@pytest.mark.parametrize("type_", TYPES, ids=DataType.ddl)
@pytest.mark.parametrize("values", ["some", "none", "null"])
def test_the_types_of_a_result_are_those_it_promises(type_: DataType, values: str) -> None:
    calls = calls_for(type_)
    given = {"some": TYPES[type_][:1], "none": [], "null": [None]}[values]
    aggregation = Aggregation((GroupKey(Column("v", type_), 0, type_),), calls)
    column = array(type_, [*given, TYPES[type_][-1]])
    batch = RowBatch(np.ones((len(column), 1), np.uint64), np.arange(len(column)), (column,), {"`v`": column})
    cells = rows_to_cells(
        batch, [Family(1, ((5, 5),), None)], [Accumulator(call.function, call.argument) for call in calls]
    )
    assert cells is not None
    table = result_table(cells, aggregation, END)
    table.validate(full=True)
    assert table.schema == result_schema(aggregation)
    assert table.schema.field("g0").type == arrow_type(type_)
    assert [field.type for field in table.schema][1:-2] == [arrow_type(call.result) for call in calls]


def test_no_cells_are_no_rows() -> None:
    column = array(DOUBLE, [1.0])
    calls = calls_for(DOUBLE)
    batch = RowBatch(np.ones((1, 1), np.uint64), np.array([0]), (), {"`v`": column})
    cells = rows_to_cells(
        batch, [Family(1, ((5, 5),), None)], [Accumulator(call.function, call.argument) for call in calls]
    )
    assert cells is not None
    table = result_table(cells.take(np.empty(0, np.int64)), Aggregation((), calls), END)
    assert table.num_rows == 0
    assert table.schema == result_schema(Aggregation((), calls))


@pytest.mark.parametrize(
    ("value", "fits"), [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False)]
)
def test_a_sum_of_integers_fits_or_fails(value: int, fits: bool) -> None:
    call = sum_call(BIGINT, BIGINT)
    if fits:
        assert sums([1, value], call)["a0"].to_pylist() == [1, value]
        return
    with pytest.raises(SumOverflow, match="64 bits"):
        sums([1, value], call)


@pytest.mark.parametrize(
    ("type_", "result"),
    [
        (decimal_type(5, 2), decimal_type(15, 2)),
        (decimal_type(8, 2), decimal_type(18, 2)),
        (decimal_type(18, 4), decimal_type(28, 4)),
        (decimal_type(38, 5), decimal_type(38, 5)),
    ],
    ids=str,
)
def test_a_sum_of_decimals_fits_or_fails(type_: DataType, result: DataType) -> None:
    most = 10**result.precision - 1
    call = sum_call(type_, result)
    found = sums([most, -most, 1, 0], call)["a0"].to_pylist()
    assert [int(value.scaleb(result.scale)) if abs(value) < 1 else str(value).replace(".", "") for value in found] == [
        str(most), f"-{most}", 1, 0,
    ]  # fmt: skip
    for value in (most + 1, -most - 1, 10**60, 10**76):
        with pytest.raises(SumOverflow, match="decimal"):
            sums([0, value], call)


def test_a_product_of_decimals_has_the_digits_of_both_and_is_rounded_once() -> None:
    narrow = sum_call(decimal_type(5, 2), decimal_type(21, 4), decimal_type(5, 2))
    assert sums([123456], narrow)["a0"].to_pylist() == [Decimal("12.3456")]
    wide = sum_call(decimal_type(38, 10), decimal_type(38, 6), decimal_type(38, 10))
    half = 5 * 10**13  # 0.0000005 with 20 digits after the point
    assert sums([half, -half, half - 1], wide)["a0"].to_pylist() == [
        Decimal("0.000001"),
        Decimal("-0.000001"),
        Decimal(0),
    ]
    with pytest.raises(SumOverflow):
        sums([10**38 * 10**38], wide)


def test_a_sum_of_nothing_is_null() -> None:
    call = sum_call(BIGINT, BIGINT)
    lanes = {**to_limbs(np.array([0, 5]), "`v`"), "count:`v`": np.array([0, 1])}
    table = result_table(cells_with(lanes), Aggregation((GroupKey(Column("k", STRING), 0, STRING),), (call,)), END)
    assert sorted(table["a0"].to_pylist(), key=str) == [5, None]


def test_windows_and_sessions_have_their_ends() -> None:
    call = AggregateCall(Function.ROWS, (None,), BIGINT)
    aggregation = Aggregation((GroupKey(Column("k", STRING), 0, STRING),), (call,))
    cells = cells_with({LAST: np.array([7, 9, 7])}, slices=[-5, -5, -5])
    assert edges(result_table(cells, aggregation, WindowEnd(10, session=True))) == [(-5, 17, 2), (-5, 19, 1)]
    windows = replace(cells, lanes={ROWS: cells.lanes[ROWS]})
    assert edges(result_table(windows, aggregation, END)) == [(-5, 5, 3)]


def edges(table: pa.Table) -> list[tuple[int, int, int]]:
    columns = [table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end", "a0")]
    return sorted(zip(*columns, strict=True))
