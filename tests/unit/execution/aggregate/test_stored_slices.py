"""A partition's view of slices: what still means somebody, what lies in its range, and merging files."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.cell_cases import Row, accumulators_of, batch_of, calls_for, families_of
from tests.support.engine_sample import open_core, rows, stream
from tests.support.harness import CoreHarness
from weft.errors import InternalError
from weft.execution.aggregate import stored_slices as slice_state
from weft.execution.aggregate.stored_slices import load_cells, merge_slices, with_meaning
from weft.execution.program import BatchTask, Program
from weft.kernels.aggregate.cells import LAST, ROWS, Cells, only_groups
from weft.kernels.aggregate.rows_to_cells import rows_to_cells
from weft.kernels.bitset import set_from_words
from weft.plan.slots import Slots
from weft.plan.types import BIGINT, STRING
from weft.storage import compaction

SESSION = "SELECT k, COUNT(*) FROM a [SESSION 100 SECONDS] GROUP BY k"
TUMBLE = "SELECT k, COUNT(*) FROM a [TUMBLE 10 SECONDS] GROUP BY k"


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state", partitions=2)


def some_cells(*sets: int) -> Cells:
    """Cells of one row each with these query-sets, in groups of their own."""
    rows_ = [Row(0, mask, at, "x") for at, mask in enumerate(sets)]
    windows = dict.fromkeys(range(130), (5, 5))
    batch = batch_of(rows_, BIGINT, STRING, slots=130)
    cells = rows_to_cells(batch, families_of(windows, apart=False), accumulators_of(calls_for(STRING)))
    assert cells is not None
    return cells


def sets_of(cells: Cells) -> Counter[int]:
    return Counter(set_from_words(cells.sets[number]) for number in cells.classes)


@pytest.mark.parametrize("words", [1, 2, 3, 5])
def test_query_sets_are_cut_or_grown_and_mean_only_the_living(words: int) -> None:
    cells = some_cells(0b01, 0b11, 1 << 64, 1 << 129 | 1)
    meaning = Slots(0b01 | 1 << 64 | 1 << 129)
    found = with_meaning(cells, meaning, words)
    assert found.sets.shape[1] == words
    mask = meaning & ((1 << 64 * words) - 1)
    wanted = Counter(each & mask for each in (0b01, 0b11, 1 << 64, 1 << 129 | 1) if each & mask)
    assert sets_of(found) == wanted
    assert with_meaning(cells, Slots(0), words).slices.tolist() == []


def test_groups_that_are_not_used_go() -> None:
    cells = some_cells(1, 1, 1, 1)
    mine = cells.take(np.array([1, 3]))
    found = only_groups(mine)
    assert found.group_count == 2
    assert found.groups[0].take(found.group).to_pylist() == cells.groups[0].take(mine.group).to_pylist()


def begun(harness: CoreHarness, partitions: int) -> tuple[Program, BatchTask]:
    found = harness.core.begin(harness.core.next_batch, partitions=partitions)
    assert found is not None
    return found


def counts(parts: list[Cells]) -> Counter[tuple[int, int, int | None]]:
    """Rows by slice, query-set and key."""
    found: Counter[tuple[int, int, int | None]] = Counter()
    for part in parts:
        keys = part.groups[0].to_pylist()
        for at in range(len(part)):
            place = (int(part.slices[at]), set_from_words(part.sets[part.classes[at]]), keys[part.group[at]])
            found[place] += int(part.lanes[ROWS][at])
    return found


def fill(harness: CoreHarness) -> None:
    """Three batches with other partitions each, the middle one with a second query."""
    harness.create(TUMBLE, "first")
    for partitions, second in ((1, 0), (3, 1), (2, 2)):
        harness._partitions = partitions
        harness.batch({"a": [rows(*((second, k, 1) for k in (*range(9), None)))]})
        if second == 0:
            harness.create(TUMBLE.replace("10", "4"), "second")
        if second == 1:
            harness.drop("second")


@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_every_cell_is_in_one_partition(harness: CoreHarness, partitions: int) -> None:
    fill(harness)
    program, task = begun(harness, partitions)
    (tag,) = program.slices.values()
    parts = [
        load_cells(program, task, partition, buckets=task.buckets, side=tag.store.side)
        for partition in range(partitions)
    ]
    keys = [{key for _, _, key in counts(each)} for each in parts]
    assert sum(len(each) for each in keys) == 10
    assert counts([part for each in parts for part in each]) == {(0, 1, key): 3 for key in (*range(9), None)}


@pytest.mark.parametrize("partitions", [1, 4])
def test_merged_files_hold_the_same_once(harness: CoreHarness, partitions: int) -> None:
    fill(harness)
    program, task = begun(harness, partitions)
    (tag,) = program.slices.values()
    merged = [
        bucket
        for partition in range(partitions)
        for bucket in merge_slices(program, task, partition, buckets=task.buckets)
    ]
    assert {bucket.epoch for bucket in merged} == {task.batch}
    assert min(bucket.min_time for bucket in merged) == 0
    assert max(bucket.max_time for bucket in merged) == 2_000_000
    parts = [
        part
        for partition in range(partitions)
        for part in load_cells(program, task, partition, buckets=merged, side=tag.store.side)
    ]
    assert sum(len(part) for part in parts) == 10
    assert counts(parts) == {(0, 1, key): 3 for key in (*range(9), None)}


def test_nothing_is_left_of_cells_that_mean_nobody(harness: CoreHarness) -> None:
    fill(harness)
    program, task = begun(harness, 2)
    nobody = replace(task, masks={})
    assert all(merge_slices(program, nobody, partition, buckets=task.buckets) == [] for partition in (0, 1))


def test_runs_closer_than_the_least_gap_become_one(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state", partitions=1, streams=[stream("a", lateness=100)])
    harness.create(TUMBLE.replace("[TUMBLE 10", "[SESSION 5"), "short")
    harness.create(TUMBLE.replace("[TUMBLE 10", "[SESSION 9"), "long")
    for second in (3, 20, 0, 8, 22):
        harness.batch({"a": [rows((second, 1, 1), (second, None, 1))]})
    program, task = begun(harness, 1)
    (merged,) = merge_slices(program, task, 0, buckets=task.buckets)
    (tag,) = program.slices.values()
    (cells,) = load_cells(program, task, 0, buckets=[merged], side=tag.store.side)
    keys = cells.groups[0].to_pylist()
    times = [[time // 10**6 for time in lane.tolist()] for lane in (cells.slices, cells.lanes[LAST])]
    found = Counter(zip((keys[group] for group in cells.group), *times, cells.lanes[ROWS].tolist(), strict=True))
    assert found == Counter((key, *run) for key in (1, None) for run in ((0, 3, 2), (8, 8, 1), (20, 22, 2)))


@pytest.mark.parametrize("text", [TUMBLE, SESSION])
@pytest.mark.parametrize("lost", ["first", "last"])
def test_a_merge_that_loses_a_cell_is_no_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, lost: str
) -> None:
    """A cell that is lost would be a group that is missing from results, with nobody to notice."""
    monkeypatch.setattr(compaction, "FAN_IN", 3)
    harness = open_core(tmp_path / "state", partitions=1)
    harness.create(text, "q")
    for n in range(3):
        harness.batch({"a": [rows(*((n, k, 0) for k in range(4)))]})

    def losing(cells: Cells) -> Cells:
        kept = np.arange(len(cells))
        return only_groups(cells.take(kept[1:] if lost == "first" else kept[:-1]))

    with monkeypatch.context() as patch:
        patch.setattr(slice_state, "only_groups", losing)
        with pytest.raises(InternalError, match=r"made \d+ rows of 12"):
            harness.batch({"a": [rows((3, 9, 0))]})
    harness.core.abort()
    harness.batch({"a": [rows((3, 9, 0))]})
    assert harness.core.inventory.results[-1].merged_away
    harness.batch({"a": [rows((1000, 9, 0))]})
    assert sorted(harness.results("q")) == [(0, 3), (1, 3), (2, 3), (3, 3), (9, 1)]
