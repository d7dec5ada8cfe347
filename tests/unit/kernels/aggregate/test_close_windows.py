"""Closing windows and sessions, against windows and sessions tried one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cell_cases import (
    WAYS,
    Row,
    Value,
    Way,
    accumulators_of,
    batch_of,
    calls_for,
    canonical,
    close_all,
    families_of,
    finished,
    is_same,
)
from weft.kernels.aggregate.cells import LAST, ROWS, concat_cells
from weft.kernels.aggregate.close_windows import (
    Closing,
    SlidingQuery,
    closing_whole_windows,
    closing_windows,
    in_closing_order,
    one_bit_sets,
)
from weft.kernels.aggregate.result_columns import WindowEnd
from weft.kernels.aggregate.rows_to_cells import Family, rows_to_cells
from weft.kernels.aggregate.sessions import SessionQuery, close_sessions, number_sessions
from weft.kernels.bitset import rows_with_slot
from weft.plan.types import DOUBLE, STRING

DAY = 86_400_000_000
STARTS = st.none() | st.integers(-20, 20)
QUERIES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), STARTS), min_size=1, max_size=4)


@given(
    slices=st.lists(st.integers(-25, 25), max_size=8),
    queries=QUERIES,
    after=st.none() | st.integers(-30, 30),
    upto=st.integers(-30, 30),
)
@settings(max_examples=120)
def test_windows_that_end(
    slices: list[int], queries: list[tuple[int, int, int | None]], after: int | None, upto: int
) -> None:
    """Sizes that are no multiple of the slide, slides beyond the size, times before 1970, starts of queries."""
    mine = [SlidingQuery(slot, *query) for slot, query in enumerate(queries)]
    found = closing_windows(np.array(slices, np.int64), mine, after=after, upto=upto)
    wanted: dict[tuple[int, int], list[int]] = defaultdict(list)
    for query in mine:
        for begin in (begin for begin in range(-40, 40) if begin % query.slide == 0):
            end = begin + query.size
            ends_now = (after is None or after < end) and end <= upto and (query.start is None or begin >= query.start)
            if ends_now and any(begin <= time < end for time in slices):
                wanted[begin, end].append(query.slot)
    assert {(each.start, each.end): sorted(each.slots) for each in found} == wanted
    assert len({(each.start, each.end) for each in found}) == len(found)


@pytest.mark.parametrize("far", [-(2**60), 2**60])
def test_a_huge_jump_of_time_costs_nothing(far: int) -> None:
    queries = [SlidingQuery(0, 10, 1, None), SlidingQuery(1, DAY, DAY, None)]
    slices = np.array([far, 0])
    found = closing_windows(slices, queries, after=None, upto=2**61)
    assert len(found) == 22
    assert closing_windows(slices, queries, after=2**61 - 1, upto=2**61) == []


@given(
    starts=st.lists(st.integers(-25, 25), max_size=8),
    queries=QUERIES,
    after=st.none() | st.integers(-30, 30),
    upto=st.integers(-30, 30),
)
@settings(max_examples=60)
def test_whole_windows_that_end(
    starts: list[int], queries: list[tuple[int, int, int | None]], after: int | None, upto: int
) -> None:
    """A cell of a whole window is part of no window that begins before it, however long that is."""
    mine = [SlidingQuery(slot, *query) for slot, query in enumerate(queries)]
    found = closing_whole_windows(np.array(starts, np.int64), mine, after=after, upto=upto)
    wanted: dict[int, list[int]] = defaultdict(list)
    for query in mine:
        for start in set(starts):
            ended = start + query.size <= upto and (after is None or start + query.size > after)
            if start % query.slide == 0 and ended and (query.start is None or start >= query.start):
                wanted[start].append(query.slot)
    assert found == [Closing(start, start + 1, tuple(slots)) for start, slots in sorted(wanted.items())]


def test_windows_that_end_together_come_shortest_first() -> None:
    windows = [Closing(0, 10, (0,)), Closing(2, 10, (1,)), Closing(8, 9, (2,))]
    assert [each.start for each in in_closing_order(windows)] == [8, 2, 0]


@given(
    times=st.lists(st.tuples(st.integers(-9, 9), st.sampled_from("ab")), min_size=1, max_size=10),
    shapes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3),
    limits=st.lists(st.integers(-9, 25), min_size=1, max_size=3).map(sorted),
    way=WAYS,
)
@settings(max_examples=30)
def test_every_window_ends_once_however_far_the_watermark_goes_at_a_time(
    times: list[tuple[int, str]], shapes: list[tuple[int, int]], limits: list[int], way: Way
) -> None:
    windows = dict(enumerate(shapes))
    calls = calls_for(DOUBLE)
    rows = [Row(time, 2 ** len(shapes) - 1, group, float(n)) for n, (time, group) in enumerate(times)]
    batch = batch_of(rows, STRING, DOUBLE, slots=3)
    cells = rows_to_cells(batch, families_of(windows, apart=False), accumulators_of(calls))
    assert cells is not None
    queries = [SlidingQuery(slot, *shape, None) for slot, shape in windows.items()]
    found: dict[tuple[Value, ...], tuple[Value, ...]] = {}
    after: int | None = None
    for upto in [*limits, 40]:
        with way.taken():
            closed = close_all([cells], closing_windows(cells.slices, queries, after=after, upto=upto))
        for slot, (size, _) in windows.items():
            more = finished(closed, slot, calls, WindowEnd(size, session=False), (STRING,))
            assert all((after is None or end > after) and end <= upto for _, end, _ in more)
            found |= {(slot, *place): values for place, values in more.items()}
        after = upto
    wanted: dict[tuple[Value, ...], list[float]] = defaultdict(list)
    for slot, (size, slide) in windows.items():
        for row in rows:
            for start in (start for start in range(-20, 20) if start % slide == 0 and start <= row.time < start + size):
                wanted[slot, start, start + size, row.group].append(row.value)
    assert found.keys() == wanted.keys()
    for place, values in found.items():
        assert all(is_same(call, got, wanted[place]) for call, got in zip(calls, values, strict=True))


def test_lanes_of_an_argument_are_merged_for_those_who_want_it() -> None:
    calls = calls_for(DOUBLE)
    batch = batch_of([Row(0, 3, "a", 2.5), Row(1, 3, "a", None)], STRING, DOUBLE, slots=2)
    cells = rows_to_cells(batch, families_of({0: (5, 5), 1: (5, 5)}, apart=False), accumulators_of(calls))
    assert cells is not None
    closed = close_all([cells], [Closing(0, 5, (0, 1))], {"`v`": 0b01})
    (values,) = finished(closed, 0, calls, WindowEnd(5, session=False), (STRING,)).values()
    assert all(is_same(call, got, [2.5, None]) for call, got in zip(calls, values, strict=True))
    ((rows,),) = finished(closed, 1, calls[:1], WindowEnd(5, session=False), (STRING,)).values()
    assert rows == 2


def test_query_sets_of_single_slots() -> None:
    sets = one_bit_sets((0, 63, 64, 130), 3)
    assert [[bool(flag) for flag in rows_with_slot(sets, slot)] for slot in (0, 64, 1)] == [
        [True, False, False, False],
        [False, False, True, False],
        [False] * 4,
    ]


# ---- sessions

GROUPS, NUMBERS = st.sampled_from(["a", "b", None]), st.integers(-9, 9).map(float)
SESSION_ROWS = st.builds(Row, st.integers(-15, 15), st.integers(1, 3), GROUPS, NUMBERS)


def sessions_of(times: list[int], gap: int) -> list[list[int]]:
    found: list[list[int]] = []
    for time in sorted(times):
        if found and time - found[-1][-1] < gap:
            found[-1].append(time)
        else:
            found.append([time])
    return found


@given(
    runs=st.lists(st.tuples(st.integers(0, 2), st.integers(-20, 20), st.integers(0, 6)), max_size=10),
    gap=st.integers(1, 6),
)
def test_sessions_of_runs_are_those_of_their_times(runs: list[tuple[int, int, int]], gap: int) -> None:
    """Runs may overlap and lie in each other: rows come out of order."""
    runs = sorted((key, first, first + length) for key, first, length in runs)
    keys, first_times, last_times = (np.array([run[n] for run in runs], np.int64) for n in range(3))
    numbers, begins, ends = number_sessions(keys, first_times, last_times, gap, np.empty(0, np.int64))
    wanted = []
    for key in (0, 1, 2):
        # A run stands for rows so close that they are one session for certain: here at every half tick.
        halves = [half for k, first, last in runs if k == key for half in range(2 * first, 2 * last + 1)]
        wanted += [(session[0] // 2, session[-1] // 2) for session in sessions_of(halves, 2 * gap)]
    assert list(zip(begins.tolist(), ends.tolist(), strict=True)) == wanted
    for number, (_, first, last) in zip(numbers, runs, strict=True):
        assert begins[number] <= first <= last <= ends[number]


@given(
    rows=st.lists(SESSION_ROWS, min_size=1, max_size=14),
    cuts=st.lists(st.integers(0, 2), min_size=1, max_size=14),
    gaps=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    after=st.none() | st.integers(-20, 25),
    upto=st.integers(-20, 25),
)
@settings(max_examples=60)
def test_sessions_that_end(
    rows: list[Row], cuts: list[int], gaps: tuple[int, int], after: int | None, upto: int
) -> None:
    calls = calls_for(DOUBLE)
    batches: dict[int, list[Row]] = defaultdict(list)
    for at, row in enumerate(rows):
        batches[cuts[at % len(cuts)]].append(row)
    parts = [
        rows_to_cells(batch_of(batch, STRING, DOUBLE, slots=2), [Family(3, (), min(gaps))], accumulators_of(calls))
        for batch in batches.values()
    ]
    cells = concat_cells([part for part in parts if part is not None])
    queries = [SessionQuery(slot, gap) for slot, gap in enumerate(gaps)]
    closed = close_sessions(cells, queries, after=after, upto=upto)
    open_cells = set()
    for slot, gap in enumerate(gaps):
        found = finished(closed.cells, slot, calls, WindowEnd(gap, session=True), (STRING,))
        wanted: dict[tuple[Value, ...], list[float]] = {}
        for group in {row.group for row in rows}:
            mine = [row for row in rows if row.group == group and row.slots >> slot & 1]
            for session in sessions_of([row.time for row in mine], gap):
                first, last = session[0], session[-1]
                if last + gap <= upto and (after is None or last + gap > after):
                    inside = [row.value for row in mine if first <= row.time <= last]
                    wanted[first, last + gap, canonical(group)] = inside
                if last + gap > upto:
                    open_cells |= {(slot, group, time) for time in session}
        assert found.keys() == wanted.keys()
        for place, values in found.items():
            assert all(is_same(call, got, wanted[place]) for call, got in zip(calls, values, strict=True))
    keys = cells.groups[0].to_pylist()
    for at in range(len(cells)):
        first, last, group = cells.slices[at], cells.lanes[LAST][at], keys[cells.group[at]]
        slots = [slot for slot in (0, 1) if rows_with_slot(cells.sets, slot)[cells.classes[at]]]
        times = range(first, last + 1)
        assert closed.open[at] == any((slot, group, time) in open_cells for slot in slots for time in times)


def test_rows_exactly_a_gap_apart_are_two_sessions() -> None:
    rows = [Row(0, 1, "a", 1.0), Row(5, 1, "a", 2.0), Row(9, 1, "a", 3.0)]
    cells = rows_to_cells(
        batch_of(rows, STRING, DOUBLE, slots=1), [Family(1, (), 5)], accumulators_of(calls_for(DOUBLE))
    )
    assert cells is not None
    closed = close_sessions(cells, [SessionQuery(0, 5)], after=None, upto=13)
    (ended,) = closed.cells
    assert (ended.slices.tolist(), ended.lanes[LAST].tolist(), ended.lanes[ROWS].tolist()) == ([0], [0], [1])
    assert closed.open.tolist() == [False, True]
