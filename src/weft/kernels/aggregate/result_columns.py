"""Convert the cells of one query to result columns: g0, g1, …, a0, a1, …, window_start, window_end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from weft.kernels import large_text as wide
from weft.kernels.aggregate.cells import LAST, ROWS, Array, Cells, Detail, compact, lane_of
from weft.kernels.aggregate.exact_sum import sum_of
from weft.kernels.aggregate.sketch import find_entries, histogram_values, hll_estimates, quantile_codes
from weft.kernels.aggregate.sort_codes import Longs, from_codes, to_decimals
from weft.kernels.arrow_types import arrow_type
from weft.kernels.join.window_table import window_ends
from weft.plan.aggregation import AggregateCall, Aggregation, Function
from weft.plan.time import TIME_MAX
from weft.plan.types import DataType

WINDOW_START, WINDOW_END = "window_start", "window_end"
_TIMESTAMP = pa.timestamp("us", "UTC")
_CONTEXT = Context(prec=60)
_LARGEST = 2**63
PIECE_BYTES = 256 << 20
"""Result rows are built in pieces of at most this many bytes of text."""


class SumOverflow(Exception):
    """Raised when a sum does not fit into its type."""


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """The rule for window ends: `length` after the start, or after the last row of a session.

    With `cut`, a window ends at the next multiple of `cut` at the latest.
    """

    length: int
    session: bool
    cut: int | None = None

    def of(self, first: Longs, last: Longs | None) -> Longs:
        """Return the ends of windows, given their first times and, for sessions, their last times."""
        ends = window_ends(first if last is None else last, self.length)
        if self.cut is None:
            return ends
        offset: Longs = first % self.cut
        # If the next multiple of `cut` is beyond TIME_MAX, it does not shorten the window.
        return np.where(first > TIME_MAX - (self.cut - offset), ends, np.minimum(ends, first + (self.cut - offset)))


def result_schema(aggregation: Aggregation) -> pa.Schema:
    """Return the schema of the result before HAVING and the SELECT list are applied."""
    keys = [pa.field(f"g{n}", arrow_type(key.type)) for n, key in enumerate(aggregation.keys)]
    calls = [pa.field(f"a{n}", arrow_type(call.result)) for n, call in enumerate(aggregation.calls)]
    return pa.schema([*keys, *calls, pa.field(WINDOW_START, _TIMESTAMP), pa.field(WINDOW_END, _TIMESTAMP)])


def result_table(cells: Cells, aggregation: Aggregation, end: WindowEnd, *, merged: bool = False) -> pa.Table:
    """Return the result rows of one query. Cells of one window and group are merged first, unless already `merged`."""
    cells = cells if merged else compact(cells)
    pieces = wide.cut(_bytes(cells, aggregation), PIECE_BYTES)
    if len(pieces) <= 1:
        return _finish(cells, aggregation, end)
    parts = (cells.take(np.arange(piece.start, piece.stop)) for piece in pieces)
    return pa.concat_tables([_finish(part, aggregation, end) for part in parts])


def _bytes(cells: Cells, aggregation: Aggregation) -> Array:
    """Return the bytes of text in each row: keys, and results of MIN and MAX."""
    sizes = np.zeros(len(cells), np.int64)
    for column in cells.groups:
        sizes += wide.lengths(column)[cells.group]
    for call in aggregation.calls:
        dictionary = cells.dictionaries.get(call.argument)
        if call.function in (Function.MIN, Function.MAX) and dictionary is not None and len(dictionary):
            words = cells.lanes[f"{call.function}:{call.argument}"]
            sizes += wide.lengths(dictionary)[np.clip(words, 0, len(dictionary) - 1)]
    return sizes


def _finish(cells: Cells, aggregation: Aggregation, end: WindowEnd) -> pa.Table:
    schema = result_schema(aggregation)
    rows = pa.array(cells.group)
    arrays = [column.take(rows) for column in cells.groups]
    arrays += [_value(call, cells) for call in aggregation.calls]
    ends = end.of(cells.slices, cells.lanes[LAST] if end.session else None)
    arrays += [pa.array(cells.slices).cast(_TIMESTAMP), pa.array(ends).cast(_TIMESTAMP)]
    return pa.Table.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema=schema
    )


def _value(call: AggregateCall, cells: Cells) -> pa.Array:
    name, lanes = call.argument, cells.lanes
    match call.function:
        case Function.ROWS:
            return pa.array(lanes[ROWS])
        case Function.COUNT:
            return pa.array(lane_of(cells, f"count:{name}"))
        case Function.SUM if f"double:{name}" in lanes:
            return pa.array(lanes[f"double:{name}"], mask=lane_of(cells, f"count:{name}") == 0)
        case Function.SUM:
            return _exact_sum(call, cells)
        case Function.MIN | Function.MAX:
            words, valid = lanes[f"{call.function}:{name}"], lane_of(cells, f"count:{name}") > 0
            return from_codes(words, arrow_type(call.result), cells.dictionaries.get(name), valid)
        case Function.SPREAD:
            return pa.array(lanes[f"squares:{name}"], mask=lane_of(cells, f"count:{name}") == 0)
        case _:
            return _from_detail(call, cells)


def _from_detail(call: AggregateCall, cells: Cells) -> pa.Array:
    count = len(cells)
    if call.function is Function.COUNT_DISTINCT:
        return pa.array(np.bincount(_detail(cells, f"distinct:{call.argument}").cells, minlength=count))
    if call.function is Function.APPROX_DISTINCT:
        registers = _detail(cells, f"registers:{call.argument}")
        return pa.array(hll_estimates(registers.cells, registers.weights, count))
    return _quantile(call, cells)


def _quantile(call: AggregateCall, cells: Cells) -> pa.Array:
    """Return the greatest value of the bucket that holds the wanted rank, in the type of the argument."""
    buckets, samples = _detail(cells, f"histogram:{call.argument}"), _detail(cells, f"sample:{call.argument}")
    chosen = quantile_codes(buckets.cells, buckets.codes, buckets.weights, len(cells), call.parameter or 0.0)
    known = np.bincount(buckets.cells, minlength=len(cells)) > 0
    entries = find_entries(samples.cells, samples.codes, np.flatnonzero(known), chosen[known])
    type_ = arrow_type(next((arg.type for arg in call.arguments if arg is not None and arg.type), call.result))
    if len(entries) and entries.min() < 0:
        # Files of older releases have no samples: use the middle of the bucket.
        middles = pa.array(histogram_values(chosen), mask=~known)
        return pc.round(middles).cast(type_, safe=False) if pt.is_integer(type_) else middles.cast(type_, safe=False)
    words = np.zeros(len(cells), np.int64)
    words[known] = samples.weights[entries]
    return from_codes(words, type_, cells.dictionaries.get(call.argument), known)


def _detail(cells: Cells, name: str) -> Detail:
    empty = np.empty(0, np.int64)
    return cells.details.get(name, Detail(empty, empty, empty))


def _exact_sum(call: AggregateCall, cells: Cells) -> pa.Array:
    total = sum_of(cells.lanes, call.argument)
    assert total is not None
    missing = lane_of(cells, f"count:{call.argument}") == 0
    target = arrow_type(call.result)
    if pt.is_decimal(target):
        scale = sum(argument.type.scale for argument in call.arguments if argument is not None and argument.type)
        if total.dtype != object and scale == target.scale and target.precision >= 19:
            return to_decimals(total, target, missing)
        return pa.array(_decimals(total, scale, call.result), target, mask=missing)
    if total.dtype == object:
        if any(not -_LARGEST <= value < _LARGEST for value in total):
            raise SumOverflow("a sum does not fit into 64 bits")
        total = total.astype(np.int64)
    return pa.array(total, mask=missing)


def _decimals(values: Array, scale: int, type_: DataType) -> Sequence[Decimal]:
    unscaled = [_rescaled(int(value), type_.scale - scale) for value in values]
    if any(abs(value) >= 10**type_.precision for value in unscaled):
        raise SumOverflow(f"a sum does not fit into {type_.ddl()}")
    return [Decimal(value).scaleb(-type_.scale, _CONTEXT) for value in unscaled]


def _rescaled(value: int, digits: int) -> int:
    """Return value · 10^digits, rounded half away from zero, in integers: Decimal rounds silently to its context."""
    unit: int = 10 ** abs(digits)
    if digits >= 0:
        return value * unit
    return (abs(value) + unit // 2) // unit * (1 if value >= 0 else -1)
