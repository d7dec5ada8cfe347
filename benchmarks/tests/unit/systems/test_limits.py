from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from weft_bench.systems.limit_files import Chunk, RowFile, chunks, files_of, write_files
from weft_bench.systems.limits import Limit, Shot, limit
from weft_bench.systems.shared_pass import AggregatePass, JoinPass, shared_pass
from weft_bench.workloads.aggregation import aggregation
from weft_bench.workloads.joins import sc1
from weft_bench.workloads.model import Workload
from weft_bench.workloads.rules import rules
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import CannotSay, NearJoin, Relation

SHARED = [Limit.DUCKDB_SHARED, Limit.POLARS]


def second(number: int, length: int = 1) -> RowFile:
    return RowFile(f"f{number}", 10, number * 1_000_000, (number + length) * 1_000_000 - 1)


def shapes(workload: Workload, count: int) -> list[object]:
    assert isinstance(workload.queries, QueryList)
    return [workload.queries.shape(number) for number in range(count)]


def test_chunks_hold_every_row_of_the_first_stream_once_and_all_partners() -> None:
    files = [second(number) for number in range(5)]
    found = list(chunks(files, files, 2))
    assert found == [
        Chunk(("f0", "f1"), ("f0", "f1", "f2", "f3")),
        Chunk(("f2", "f3"), ("f0", "f1", "f2", "f3", "f4")),
        Chunk(("f4",), ("f2", "f3", "f4")),
    ]


def test_a_file_longer_than_the_reach_is_a_chunk_of_its_own() -> None:
    files = [second(number, 5) for number in (0, 5)]
    assert [chunk.left for chunk in chunks(files, files, 2)] == [("f0",), ("f5",)]


def test_a_shared_pass_has_the_conditions_of_each_side() -> None:
    found = shared_pass(shapes(sc1(), 3))
    assert isinstance(found, JoinPass)
    assert found.keys == (("k", "k"),)
    assert len(found.reaches) == 3
    assert found.widest == max(found.reaches)
    assert all("a." in left and "b." in right for left, right in found.conditions)
    assert "k" in found.columns(0)


def test_slices_go_into_every_window() -> None:
    found = shared_pass(shapes(aggregation(), 4))
    assert isinstance(found, AggregatePass)
    assert found.keys == ("k",)
    for query in found.queries:
        assert query.window.seconds % found.slice_seconds == query.window.slide % found.slice_seconds == 0


def test_what_has_no_shared_pass_says_why() -> None:
    one = NearJoin((Relation("A", "a"), Relation("B", "b")), ("a.k = b.k",), (), 1)
    other = NearJoin((Relation("A", "a"), Relation("B", "b")), ("a.k < b.k",), (), 1)
    with pytest.raises(CannotSay, match="different conditions"):
        shared_pass([one, other])
    with pytest.raises(CannotSay, match="by equal columns"):
        shared_pass([other])
    with pytest.raises(CannotSay, match="neither all joins nor all aggregates"):
        shared_pass([])


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workload, Path]:
    workload, folder = sc1(keys=200, rate=1_000), tmp_path_factory.mktemp("joins")
    write_files(workload, folder, seconds=7)
    return workload, folder


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workload, Path]:
    workload, folder = aggregation(keys=20, rate=1_000, longest=4), tmp_path_factory.mktemp("aggregates")
    write_files(workload, folder, seconds=9)
    return workload, folder


def test_files_know_their_rows_and_event_times(joined: tuple[Workload, Path]) -> None:
    files = files_of(joined[1], "A")
    assert [each.rows for each in files] == [1_000] * 7
    assert all(before.last < after.first for before, after in pairwise(files))
    assert files[-1].last - files[0].first < 7_000_000


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_pass_over_joins_counts_what_duckdb_counts_apart(name: Limit, joined: tuple[Workload, Path]) -> None:
    workload, folder = joined
    apart = limit(Limit.DUCKDB, workload, 70, folder=folder)
    shared = limit(name, workload, 70, folder=folder)
    assert shared.results == apart.results
    assert sum(apart.results) > 10_000
    assert shared.rows == apart.rows == 14_000
    assert shared.rows_per_second > 0


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_pass_over_aggregates_finds_the_same_groups(name: Limit, grouped: tuple[Workload, Path]) -> None:
    workload, folder = grouped
    apart = limit(Limit.DUCKDB, workload, 12, folder=folder)
    shared = limit(name, workload, 12, folder=folder)
    assert shared.results == apart.results
    assert min(apart.results) >= 0
    assert sum(apart.results) > 100


def test_apart_any_workload_goes_and_a_shared_pass_is_refused(tmp_path: Path) -> None:
    workload = rules()
    write_files(workload, tmp_path, seconds=1)
    assert len(limit(Limit.DUCKDB, workload, 2, folder=tmp_path).results) == 2
    with pytest.raises(CannotSay, match="no shared pass"):
        limit(Limit.DUCKDB_SHARED, workload, 2, folder=tmp_path)


def test_without_polars_its_limit_says_what_is_missing(
    joined: tuple[Workload, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(CannotSay, match="polars is not installed"):
        limit(Limit.POLARS, joined[0], 2, folder=joined[1])


def test_a_shot_is_rows_by_time() -> None:
    assert Shot(100, 0.5, (1, 2)).rows_per_second == 200
