"""Slice files: cells come back as they were, part by part, for every type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.cell_cases import TYPES, Row, accumulators_of, batch_of, calls_for, canonical, families_of
from weft.kernels.aggregate.cells import Cells, split_groups
from weft.kernels.aggregate.rows_to_cells import RowBatch, rows_to_cells
from weft.plan.types import BIGINT, DataType
from weft.storage.result_files import PartRef, WindowResult, read_session_rows, write_session_rows
from weft.storage.slices import read_slices, write_slices


def cells_of(type_: DataType, *, slots: int = 2) -> Cells:
    values = [*TYPES[type_], None]
    rows = [Row(at, 1 << slots - 1 | at % 2, value, value) for at, value in enumerate(values)]
    windows = {0: (3, 2), slots - 1: (4, 4)}
    batch = batch_of(rows, type_, type_, slots=slots)
    cells = rows_to_cells(batch, families_of(windows, apart=False), accumulators_of(calls_for(type_)))
    assert cells is not None
    return cells


def assert_same(one: Cells, other: Cells) -> None:
    assert one.group_count == other.group_count
    keys = [[[canonical(value) for value in column.to_pylist()] for column in each.groups] for each in (one, other)]
    assert keys[0] == keys[1]
    assert [column.type for column in one.groups] == [column.type for column in other.groups]
    for name in ("sets", "slices", "classes", "group"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
        assert getattr(one, name).dtype == getattr(other, name).dtype
    assert one.lanes.keys() == other.lanes.keys()
    for name, lane in one.lanes.items():
        assert lane.dtype.kind == other.lanes[name].dtype.kind  # small numbers are written in half the bytes
        np.testing.assert_array_equal(lane, other.lanes[name])
    assert one.details.keys() == other.details.keys()
    for name, detail in one.details.items():
        for part in ("cells", "codes", "weights"):
            assert getattr(detail, part).tolist() == getattr(other.details[name], part).tolist()
    assert {n: d.to_pylist() for n, d in one.dictionaries.items()} == {
        n: d.to_pylist() for n, d in other.dictionaries.items()
    }


@pytest.mark.parametrize("type_", TYPES, ids=DataType.ddl)
def test_cells_of_every_type_come_back(tmp_path: Path, type_: DataType) -> None:
    cells = cells_of(type_)
    file = write_slices(tmp_path, "7/x.arrow", [cells], epoch=7, words=1)
    path = tmp_path / file.path
    assert file.bytes == path.stat().st_size
    ((found, epoch),) = read_slices(path, (0,))
    assert epoch == 7
    assert_same(found, cells)


def test_parts_come_back_by_number_and_empty_ones_too(tmp_path: Path) -> None:
    cells = cells_of(BIGINT, slots=130)
    parts = split_groups(cells, np.arange(cells.group_count) % 2 * 2, 4)
    path = tmp_path / write_slices(tmp_path, "x.arrow", parts, epoch=0, words=3).path
    for number in (3, 0, 1, 2):
        ((found, _),) = read_slices(path, (number,))
        assert_same(found, parts[number])
    assert [len(found) for found, _ in read_slices(path, (1, 2))] == [0, len(parts[2])]


def test_cells_without_groups_come_back(tmp_path: Path) -> None:
    batch = RowBatch(np.ones((2, 1), np.uint64), np.array([-5, 5]), (), {})
    cells = rows_to_cells(batch, families_of({0: (5, 5)}, apart=False), ())
    assert cells is not None
    file = write_slices(tmp_path, "x.arrow", [cells], epoch=0, words=1)
    ((found, _),) = read_slices(tmp_path / file.path, (0,))
    assert_same(found, cells)
    assert (found.groups, found.group_count) == ((), 1)


# ---- results of windows


def test_window_results_come_back_through_json() -> None:
    result = WindowResult("3/w.arrow", "source", 5, 99, (PartRef("1/x", 0), PartRef("2/y", 7)))
    assert WindowResult.from_json(result.to_json()) == result


def test_rows_of_sessions_are_read_by_query(tmp_path: Path) -> None:
    names = ("slot", "p0", "r0", "p1", "r1", "first", "last")
    pairs = [(0, 1, 2, 3, 4, -5, 6), (9, 0, 0, 0, 0, 2**60, 2**60), (0, 7, 7, 7, 7, 7, 7)]
    columns = {name: np.array([pair[at] for pair in pairs], np.int64) for at, name in enumerate(names)}
    file = write_session_rows(tmp_path, "5/s.arrow", columns)
    path = tmp_path / file.path
    assert file.bytes == path.stat().st_size
    found = read_session_rows(path, 0)
    assert list(zip(*(found[name] for name in names), strict=True)) == [pairs[0], pairs[2]]
    assert len(read_session_rows(path, 1)["slot"]) == 0
