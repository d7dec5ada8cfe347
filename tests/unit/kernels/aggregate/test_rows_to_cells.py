"""Rows into cells: cut at the edges of windows, by class or by query, in runs for sessions."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cell_cases import (
    Row,
    accumulators_of,
    array,
    batch_of,
    calls_for,
    close_all,
    families_of,
    finished,
    is_same,
)
from weft.kernels.aggregate import rows_to_cells as module
from weft.kernels.aggregate.cells import LAST, ROWS, Cells
from weft.kernels.aggregate.close_windows import SlidingQuery, closing_windows
from weft.kernels.aggregate.result_columns import WindowEnd
from weft.kernels.aggregate.rows_to_cells import Accumulator, Family, RowBatch, rows_to_cells
from weft.kernels.bitset import set_from_words, set_to_words
from weft.plan.aggregation import Function
from weft.plan.types import BIGINT, DOUBLE, STRING

COUNT = (Accumulator(Function.ROWS, ""),)
SHAPES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3)
TIMES = st.lists(st.integers(-30, 30), min_size=1, max_size=15)


def rows_at(times: list[int], sets: list[int] | None = None, words: int = 1) -> RowBatch:
    """Rows without arguments, all of one group."""
    every = [1] * len(times) if sets is None else sets
    return RowBatch(np.stack([set_to_words(each, words) for each in every]), np.array(times), (), {})


def cells_of(cells: Cells | None) -> dict[tuple[int, int], int]:
    """Rows by slice and query-set; fails if a slice has two cells."""
    assert cells is not None
    places = [(int(s), set_from_words(cells.sets[c])) for s, c in zip(cells.slices, cells.classes, strict=True)]
    assert len(set(places)) == len(places)
    return dict(zip(places, cells.lanes[ROWS].tolist(), strict=True))


def slice_of(time: int, shapes: list[tuple[int, int]]) -> int:
    """The last edge of any window before or at a time, found by going back."""
    edge = time
    while not any((edge - offset) % slide == 0 for size, slide in shapes for offset in (0, size)):
        edge -= 1
    return edge


@given(times=TIMES, shapes=SHAPES, step=st.sampled_from([1, 1 << 21]), far=st.sampled_from([0, -(10**15), 10**15]))
@settings(max_examples=100)
def test_slices_begin_at_the_edges_of_windows(
    times: list[int], shapes: list[tuple[int, int]], step: int, far: int
) -> None:
    times = [time + far for time in times]
    with patch.object(module, "_MOST_EDGES", step):
        found = cells_of(rows_to_cells(rows_at(times), [Family(1, tuple(shapes), None)], COUNT))
    wanted: dict[tuple[int, int], int] = {}
    for time in times:
        at = slice_of(time, shapes)
        wanted[at, 1] = wanted.get((at, 1), 0) + 1
    assert found == wanted


def test_rows_of_one_set_are_one_class_and_rows_for_nobody_are_left_out() -> None:
    batch = rows_at([0, 1, 2, 3, 4], [0b011, 0b011, 0b100, 0, 0b111])
    families = [Family(0b011, ((10, 10),), None), Family(0b100, ((5, 5),), None)]
    assert cells_of(rows_to_cells(batch, families, COUNT)) == {(0, 0b011): 3, (0, 0b100): 2}
    assert rows_to_cells(rows_at([0], [0b100]), families[:1], COUNT) is None


def sets_strategy(queries: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 2**queries - 1), min_size=1, max_size=30)


@given(sets=sets_strategy(70), many=st.booleans(), at_once=st.sampled_from([7000, 1 << 21]))
@settings(max_examples=12)
def test_classes_and_single_queries_give_the_same(sets: list[int], many: bool, at_once: int) -> None:
    """With too many classes a family is taken apart into its queries; slots go beyond one word."""
    sets = [*sets, *(1 << 69 | mask for mask in range(1, 400))] if many else sets
    windows = {slot: (8, 4) if slot % 2 else (6, 6) for slot in range(70)}
    rows = [Row(time % 12, mask, "ab"[time % 2], float(time)) for time, mask in enumerate(sets)]
    calls = calls_for(DOUBLE)
    with patch.object(module, "_EXPANDED_AT_ONCE", at_once):
        cells = rows_to_cells(
            batch_of(rows, STRING, DOUBLE, slots=70), families_of(windows, apart=False), accumulators_of(calls)
        )
    assert cells is not None
    assert many == all(set_from_words(each).bit_count() == 1 for each in cells.sets) or len(sets) < 400
    queries = [SlidingQuery(slot, *window, None) for slot, window in windows.items()]
    closed = close_all([cells], closing_windows(cells.slices, queries, after=None, upto=100))
    for slot in (0, 1, 63, 64, 69):
        size, slide = windows[slot]
        found = finished(closed, slot, calls, WindowEnd(size, session=False), (STRING,))
        starts = [start for start in range(-8, 13) if start % slide == 0]
        wanted = {
            (start, start + size, group): [row.value for row in rows if row.slots >> slot & 1 and row.group == group
                                           and start <= row.time < start + size]
            for start in starts for group in "ab"
        }  # fmt: skip
        wanted = {place: values for place, values in wanted.items() if values}
        assert found.keys() == wanted.keys()
        for place, values in found.items():
            assert all(is_same(call, got, wanted[place]) for call, got in zip(calls, values, strict=True))


def test_many_distinct_sets_are_taken_apart_by_themselves() -> None:
    """More classes than are worth it: without any help the cells are those of single queries."""
    sets = [mask | 1 << 9 for mask in range(1, 400)]
    cells = rows_to_cells(rows_at([0] * len(sets), sets), [Family(2**10 - 1, ((5, 5),), None)], COUNT)
    assert cells is not None
    found = cells_of(cells)
    assert found == {(0, 1 << slot): sum(mask >> slot & 1 for mask in sets) for slot in range(10)}


# ---- sessions


def runs_of(times: list[int], gap: int) -> list[tuple[int, int, int]]:
    """First and last time and number of rows of runs, one row at a time."""
    runs: list[tuple[int, int, int]] = []
    for time in sorted(times):
        if runs and time - runs[-1][1] < gap:
            runs[-1] = (runs[-1][0], time, runs[-1][2] + 1)
        else:
            runs.append((time, time, 1))
    return runs


@given(times=TIMES, gap=st.integers(1, 9))
@settings(max_examples=100)
def test_rows_closer_than_the_gap_are_one_run(times: list[int], gap: int) -> None:
    cells = rows_to_cells(rows_at(times), [Family(1, (), gap)], COUNT)
    assert cells is not None
    found = zip(cells.slices.tolist(), cells.lanes[LAST].tolist(), cells.lanes[ROWS].tolist(), strict=True)
    assert sorted(found) == runs_of(times, gap)


def test_runs_are_by_class_and_group() -> None:
    batch = rows_at([0, 1, 2, 3], [1, 3, 1, 3])
    batch = RowBatch(batch.sets, batch.times, (array(BIGINT, [7, 7, None, 7]),), {})
    cells = rows_to_cells(batch, [Family(3, (), 5)], COUNT)
    assert cells is not None
    keys = cells.groups[0].to_pylist()
    found = {
        (set_from_words(cells.sets[c]), keys[g], int(s), int(last))
        for c, g, s, last in zip(cells.classes, cells.group, cells.slices, cells.lanes[LAST], strict=True)
    }
    assert found == {(1, 7, 0, 0), (3, 7, 1, 3), (1, None, 2, 2)}


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_sums_of_longs_do_not_wrap(value: int) -> None:
    calls = calls_for(BIGINT)
    rows = [Row(0, 1, 1, value)] * 9
    cells = rows_to_cells(
        batch_of(rows, BIGINT, BIGINT, slots=1), families_of({0: (5, 5)}, apart=False), accumulators_of(calls)
    )
    assert cells is not None
    closed = close_all([cells], closing_windows(cells.slices, [SlidingQuery(0, 5, 5, None)], after=None, upto=5))
    (values,) = finished(closed, 0, calls, WindowEnd(5, session=False), (BIGINT,)).values()
    assert values[-1] == 9 * value
