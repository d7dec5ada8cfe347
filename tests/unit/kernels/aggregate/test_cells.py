"""Cells: however rows are cut into parts and merged again, the values are those of all rows at once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cell_cases import (
    NAN,
    TYPES,
    WAYS,
    Row,
    Value,
    Way,
    accumulators_of,
    array,
    batch_of,
    calls_for,
    canonical,
    close_all,
    families_of,
    finished,
    is_same,
)
from weft.kernels.aggregate.cells import (
    GREATEST,
    LAST,
    LEAST,
    ROWS,
    Cells,
    Detail,
    compact,
    concat_cells,
    group_rows,
    merge_details,
    number_keys,
    plain_key,
    split_groups,
)
from weft.kernels.aggregate.close_windows import Closing, SlidingQuery, closing_windows
from weft.kernels.aggregate.result_columns import WindowEnd
from weft.kernels.aggregate.rows_to_cells import rows_to_cells
from weft.kernels.bitset import set_to_words
from weft.plan.types import BIGINT, BOOLEAN, DOUBLE, STRING, DataType
from weft.storage.slices import read_slices, write_slices

SLOTS = {0: (10, 10), 1: (10, 5), 2: (7, 3)}
"""Size and slide by slot."""


@st.composite
def tables(draw: st.DrawFn) -> tuple[DataType, DataType, list[Row]]:
    """Types of group and argument, and rows."""
    group, value = (draw(st.sampled_from(list(TYPES))) for _ in range(2))
    groups, values = (st.none() | st.sampled_from(TYPES[type_]) for type_ in (group, value))
    row = st.builds(Row, st.integers(-12, 12), st.integers(1, 7), groups, values)
    return group, value, draw(st.lists(row, min_size=1, max_size=14))


def windows_of(rows: list[Row], slot: int) -> dict[tuple[Value, ...], list[Value]]:
    """Arguments by window and group, tried window by window."""
    size, slide = SLOTS[slot]
    found: dict[tuple[Value, ...], list[Value]] = defaultdict(list)
    for row in rows:
        for start in range(-30, 31):
            if row.slots >> slot & 1 and start % slide == 0 and start <= row.time < start + size:
                found[start, start + size, canonical(row.group)].append(row.value)
    return found


def check(parts: list[Cells], rows: list[Row], group: DataType, value: DataType, way: Way) -> None:
    """The windows of all queries, closed from these cells, are those of the rows."""
    calls = calls_for(value)
    slices = np.concatenate([part.slices for part in parts])
    queries = [SlidingQuery(slot, *window, None) for slot, window in SLOTS.items()]
    with way.taken():
        closed = close_all(parts, closing_windows(slices, queries, after=None, upto=99))
    for slot, (size, _) in SLOTS.items():
        found = finished(closed, slot, calls, WindowEnd(size, session=False), (group,))
        wanted = windows_of(rows, slot)
        assert found.keys() == wanted.keys()
        for place, values in found.items():
            for call, got in zip(calls, values, strict=True):
                assert is_same(call, got, wanted[place]), (slot, place, call.function, got, wanted[place])


def cut(rows: list[Row], numbers: list[int]) -> list[list[Row]]:
    parts: dict[int, list[Row]] = defaultdict(list)
    for at, row in enumerate(rows):
        parts[numbers[at % len(numbers)]].append(row)
    return list(parts.values())


@given(
    case=tables(),
    numbers=st.lists(st.integers(0, 3), min_size=1, max_size=14),
    steps=st.lists(st.sampled_from(["concat", "compact", "split", "disk", "reverse"]), max_size=4),
    apart=st.booleans(),
    way=WAYS,
)
@settings(max_examples=35)
def test_any_way_to_cut_and_merge_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[DataType, DataType, list[Row]],
    numbers: list[int],
    steps: list[str],
    apart: bool,
    way: Way,
) -> None:
    group, value, rows = case
    families, accumulators = families_of(SLOTS, apart=apart), accumulators_of(calls_for(value))
    made = [rows_to_cells(batch_of(part, group, value, slots=3), families, accumulators) for part in cut(rows, numbers)]
    parts = [part for part in made if part is not None]
    assert len(parts) == len(made)
    for step in steps:
        parts = merged(parts, step, tmp_path_factory)
    check(parts, rows, group, value, way)


def merged(parts: list[Cells], step: str, folders: pytest.TempPathFactory) -> list[Cells]:
    match step:
        case "concat":
            return [concat_cells(parts)]
        case "compact":
            return [compact(concat_cells(parts[:2])), *parts[2:]]
        case "split":
            return [each for part in parts for each in split_groups(part, np.arange(part.group_count) % 3, 3)]
        case "reverse":
            return [part.take(np.arange(len(part))[::-1].copy()) for part in reversed(parts)]
        case _:
            return [each for part in parts for each in through_disk(part, folders.mktemp("slices"))]


def through_disk(cells: Cells, folder: Path) -> list[Cells]:
    halves = split_groups(cells, np.arange(cells.group_count) % 2, 2)
    file = write_slices(folder, "x.arrow", halves, epoch=0, words=1)
    return [part for part, _ in read_slices(folder / file.path, (0, 1))]


def test_parts_that_lack_lanes_have_nothing_in_them() -> None:
    rows = [Row(0, 1, "g", "x"), Row(1, 1, "g", None)]
    calls = calls_for(STRING)
    full = rows_to_cells(
        batch_of(rows, STRING, STRING, slots=1), families_of({0: (5, 5)}, apart=False), accumulators_of(calls)
    )
    assert full is not None
    bare = replace(full, lanes={ROWS: full.lanes[ROWS]}, details={}, dictionaries={}, sets=set_to_words(2, 1)[None, :])
    for parts in ([full, bare], [bare, full], [bare, full, bare]):
        closed = close_all(parts, [Closing(0, 5, (0, 1))])
        (values,) = finished(closed, 0, calls, WindowEnd(5, session=False), (STRING,)).values()
        assert all(is_same(call, got, ["x", None]) for call, got in zip(calls, values, strict=True))


# ---- groups


@given(
    types=st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4),
    data=st.data(),
    count=st.integers(0, 12),
)
@settings(max_examples=50)
def test_rows_of_equal_keys_are_one_group(types: list[DataType], data: st.DataObject, count: int) -> None:
    values = [data.draw(st.lists(st.none() | st.sampled_from(TYPES[t]), min_size=count, max_size=count)) for t in types]
    numbers, firsts = group_rows([array(t, v) for t, v in zip(types, values, strict=True)], count)
    keys = [tuple(canonical(value) for value in row) for row in zip(*values, strict=True)]
    assert len(firsts) == len(set(keys))
    assert [keys[firsts[number]] for number in numbers] == keys


def test_all_nans_are_one_group_and_so_are_both_zeros() -> None:
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    column = pa.array([*odd, NAN, 0.0, -0.0])
    numbers, _ = group_rows([column], 5)
    assert numbers[0] == numbers[1] == numbers[2]
    assert numbers[3] == numbers[4] != numbers[0]
    assert np.copysign(1.0, plain_key(column).to_numpy()[3:]).tolist() == [1.0, 1.0]


def test_without_keys_there_is_one_group() -> None:
    assert [part.tolist() for part in group_rows([], 3)] == [[0, 0, 0], [0]]
    assert [part.tolist() for part in group_rows([], 0)] == [[], []]


def test_many_columns_of_many_values_are_numbered_without_overflow() -> None:
    random = np.random.default_rng(1)
    columns = [random.integers(0, 4000, 4000) for _ in range(6)]
    numbers, firsts = group_rows([pa.array(column) for column in columns], 4000)
    assert len(firsts) == len(set(zip(*(column.tolist() for column in columns), strict=True)))
    assert all((column[firsts[numbers]] == column).all() for column in columns)


@pytest.mark.parametrize("space", [100, 2**60])
def test_numbers_of_keys_however_large_their_space(space: int) -> None:
    numbers, found = number_keys(np.array([5, -1, 99, 5]), space)
    assert numbers[0] == numbers[3] != numbers[2]
    assert numbers[1] == -1
    assert sorted(found.tolist()) == [5, 99]


# ---- details


@given(
    entries=st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2), st.integers(1, 9)), max_size=20),
    kind=st.sampled_from(["distinct", "registers", "histogram"]),
)
def test_entries_of_one_cell_and_code_become_one(entries: list[tuple[int, int, int]], kind: str) -> None:
    if kind == "distinct":  # a word is there or not
        entries = [(cell, code, 1) for cell, code, _ in entries]
    wanted: dict[tuple[int, int], int] = {}
    for cell, code, weight in entries:
        before = wanted.get((cell, code), 0)
        wanted[cell, code] = before + weight if kind == "histogram" else max(before, weight)
    columns = [np.array([entry[n] for entry in entries], np.int64) for n in range(3)]
    found = merge_details(f"{kind}:x", Detail(columns[0], columns[1], columns[2]))
    got = list(zip(found.cells.tolist(), found.codes.tolist(), found.weights.tolist(), strict=True))
    assert got == [(*place, weight) for place, weight in sorted(wanted.items())]


@pytest.mark.parametrize("kind", ["distinct", "registers", "histogram"])
def test_codes_that_are_too_far_apart_for_one_number(kind: str) -> None:
    codes = np.array([2**63 - 1, -(2**63), 2**63 - 1, 5])
    found = merge_details(f"{kind}:x", Detail(np.array([1, 0, 1, 0]), codes, np.ones(4, np.int64)))
    assert found.cells.tolist() == [0, 0, 1]
    assert found.codes.tolist() == [-(2**63), 5, 2**63 - 1]
    assert found.weights.tolist() == [1, 1, 2 if kind == "histogram" else 1]


# ---- compaction of sessions and empty lanes


def sessions(*spans: tuple[int, int]) -> Cells:
    """Sessions (first and last time) of one group, one row each."""
    starts, lasts = (np.array([span[n] for span in spans]) for n in (0, 1))
    nowhere = np.zeros(len(spans), np.int64)
    lanes = {ROWS: np.ones(len(spans), np.int64), LAST: lasts}
    return Cells((array(BIGINT, [1]),), 1, set_to_words(1, 1)[None, :], starts, nowhere, nowhere, lanes)


def test_sessions_that_begin_together_and_end_apart_stay_apart() -> None:
    found = compact(sessions((0, 5), (0, 9), (0, 5)))
    got = sorted(zip(found.slices.tolist(), found.lanes[LAST].tolist(), found.lanes[ROWS].tolist(), strict=True))
    assert got == [(0, 5, 2), (0, 9, 1)]


def test_nothing_counted_is_told_from_the_largest_and_least_long() -> None:
    rows = [Row(0, 1, True, -(2**63)), Row(0, 1, True, None), Row(0, 1, False, 2**63 - 1), Row(0, 1, None, None)]
    assert {LEAST, GREATEST} == {2**63 - 1, -(2**63)}
    calls = calls_for(BIGINT)
    made = rows_to_cells(
        batch_of(rows, BOOLEAN, BIGINT, slots=1), families_of({0: (5, 5)}, apart=False), accumulators_of(calls)
    )
    assert made is not None
    found = finished(close_all([made], [Closing(0, 5, (0,))]), 0, calls, WindowEnd(5, session=False), (BOOLEAN,))
    for group in (True, False, None):
        values = [row.value for row in rows if row.group is group]
        assert all(is_same(call, got, values) for call, got in zip(calls, found[0, 5, group], strict=True))


def test_taking_and_splitting_keeps_what_belongs_to_a_cell() -> None:
    rows = [Row(t, 1, t % 4, float(t)) for t in range(20)]
    calls = calls_for(DOUBLE)
    cells = rows_to_cells(
        batch_of(rows, BIGINT, DOUBLE, slots=1), families_of({0: (5, 5)}, apart=False), accumulators_of(calls)
    )
    assert cells is not None
    parts = split_groups(cells, np.array([0, 2, 2, 0])[: cells.group_count], 3)
    assert [part.group_count for part in parts] == [2, 0, 2]
    assert [len(part) for part in parts][1] == 0
    assert sum(len(part) for part in parts) == len(cells)
    for part in parts:
        for detail in part.details.values():
            assert (detail.cells[1:] >= detail.cells[:-1]).all()
            assert len(detail.cells) == 0 or int(detail.cells.max()) < len(part)
