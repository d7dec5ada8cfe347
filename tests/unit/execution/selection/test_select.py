"""The tag stage: who is late, who wants a row, where it goes, and whose failure it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.engine_sample import JOIN, open_core, rows
from tests.support.harness import CoreHarness
from weft.execution.input.pieces import Piece
from weft.execution.items import TagReport, decode_report, is_report
from weft.execution.program import BatchTask, Program
from weft.execution.selection import select as tag_module
from weft.execution.selection.select import tag_table
from weft.execution.stages import tag_stage
from weft.kernels.hash_space import hash_range
from weft.kernels.key_hash import hash_keys
from weft.storage.bucket import HASH, LAST_HASH, Bucket, PartView, index_hash, index_rows, open_parts
from weft.storage.index_order import order_index

BIGGEST = 2**31 - 1


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state", partitions=3)


def begin(harness: CoreHarness, partitions: int = 3) -> tuple[Program, BatchTask]:
    begun = harness.core.begin(harness.core.next_batch, partitions=partitions)
    assert begun is not None
    return begun


def tag(harness: CoreHarness, *pieces: pa.RecordBatch, partitions: int = 3) -> tuple[TagReport, list[Bucket]]:
    report = tag_table(*begin(harness, partitions), "a", table=pa.Table.from_batches(pieces))
    return report, report.buckets


def views(harness: CoreHarness, bucket: Bucket) -> list[PartView]:
    return open_parts(harness.core.directory.path("data", *bucket.path.split("/")), range(len(bucket.parts)))


# ---- which rows


def test_late_rows_and_rows_without_time_are_counted_and_left_out(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "q")
    harness.batch({"a": [rows((10, 1, 1))]})
    report, (bucket,) = tag(harness, rows((9.999999, 1, 2), (10, 1, 3), (None, 1, 4), (12, 1, 5)))
    assert (report.rows, report.late, report.timeless, report.max_time) == (4, 1, 1, 12_000_000)
    assert views(harness, bucket)[0].rows.column("x").to_pylist() == [3, 5]


@pytest.mark.parametrize("values", [[], [(None, 1, 1)], [(1, 1, -5)]])
def test_no_row_for_anybody_is_no_bucket(harness: CoreHarness, values: list[tuple[object, ...]]) -> None:
    harness.create("SELECT x FROM a WHERE x > 0", "q")
    report, buckets = tag(harness, rows(*values))
    assert buckets == []
    assert report.rows == len(values)


def test_without_queries_rows_only_move_the_watermark(harness: CoreHarness) -> None:
    report, buckets = tag(harness, rows((5, 1, 1)))
    assert (buckets, report.max_time) == ([], 5_000_000)


def test_only_what_somebody_reads_is_stored(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a WHERE j = 5", "q")
    _, (bucket,) = tag(harness, rows((0, 1, 2, 5, "text")))
    names = views(harness, bucket)[0].rows.schema.names
    assert [name for name in names if not name.startswith("weft#")] == ["x"]


def test_each_store_has_the_rows_and_bits_of_its_own_queries(harness: CoreHarness) -> None:
    harness.create(JOIN + " WHERE p.x > 1", "join")
    harness.create("SELECT x FROM a WHERE x < 3", "select")
    _, buckets = tag(harness, rows((0, 1, 1), (0, 1, 2), (0, 1, 3)))
    found = {}
    for bucket in buckets:
        for view in views(harness, bucket):
            found |= {
                (bucket.slots, x): int(bits[0]) for x, bits in zip(view.rows["x"].to_pylist(), view.sets, strict=True)
            }
    assert found == {(1, 2): 1, (1, 3): 1, (2, 1): 2, (2, 2): 2}


def test_rows_before_a_querys_start_are_not_its_own(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "early")
    harness.batch({"a": [rows((10, 1, 1))]})
    harness.create("SELECT x FROM a", "late")
    _, (bucket,) = tag(harness, rows((10, 1, 2), (10.000001, 1, 3)))
    assert views(harness, bucket)[0].sets[:, 0].tolist() == [0b01, 0b11]


# ---- where they go


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_parts_cover_the_hash_space_and_rows_are_sorted_in_them(harness: CoreHarness, partitions: int) -> None:
    harness.create(JOIN, "q")
    given = [(second, k, k) for k in range(20) for second in (3, 1, 2)]
    _, (bucket,) = tag(harness, rows(*given, (0, None, 99)), partitions=partitions)
    assert [(part.low, part.high) for part in bucket.parts] == [hash_range(p, partitions) for p in range(partitions)]
    assert bucket.rows == len(given), "a NULL key never matches"
    for part, view in zip(bucket.parts, views(harness, bucket), strict=True):
        hashes = view.column(HASH)
        assert part.rows == len(hashes)
        if len(hashes):
            assert part.low <= int(hashes[0]) <= int(hashes[-1]) <= part.high
            assert (part.min_time, part.max_time) == (view.times.min(), view.times.max())
        order = list(zip(hashes.tolist(), view.times.tolist(), strict=True))
        assert order == sorted(order)


def test_a_secondary_index_finds_every_row_by_its_key(harness: CoreHarness) -> None:
    harness.create(JOIN, "single")
    harness.create(JOIN + " AND p.j = q.j", "both")
    values = [(second, k, 0, j) for k in range(5) for j in (1, 2, None) for second in (2, 1)]
    program, task = begin(harness)
    (bucket,) = tag_table(program, task, "a", table=pa.Table.from_batches([rows(*values)])).buckets
    store = program.stores[bucket.store]
    (index,) = (index for index in store.indexes if len(index.key) == 2)
    for view in views(harness, bucket):
        hashes, numbers = view.column(index_hash(index.id)), view.column(index_rows(index.id))
        known = int((numbers >= 0).sum())
        assert (numbers[known:] == -1).all()
        assert (hashes[known:] == LAST_HASH).all()
        taken = view.rows.take(pa.array(numbers[:known]))
        np.testing.assert_array_equal(hash_keys([taken[part.name] for part in index.key]).h, hashes[:known])
        keyed = {n for n, j in enumerate(view.rows["j"].to_pylist()) if j is not None}
        assert set(numbers[:known].tolist()) == keyed
        assert hashes[:known].tolist() == sorted(hashes[:known].tolist())


def test_an_index_of_nothing_is_empty() -> None:
    none = np.array([], np.uint64), np.array([], np.int64)
    assert [len(each) for each in order_index(*none, None)] == [0, 0]
    hashes, numbers = order_index(np.array([5, 4], np.uint64), np.array([0, 0]), np.array([False, False]))
    assert (hashes.tolist(), numbers.tolist()) == ([LAST_HASH] * 2, [-1, -1])


def test_large_tables_become_several_buckets(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tag_module, "ROWS_AT_ONCE", 2)
    harness.create("SELECT x FROM a", "q")
    report, buckets = tag(harness, rows((0, 1, 1), (5, 1, 2), (1, 1, 3)), rows((0, 1, 4), (2, 1, 5)))
    assert [bucket.rows for bucket in buckets] == [2, 2, 1]
    assert (report.rows, report.max_time) == (5, 5_000_000)
    assert len({bucket.path for bucket in buckets}) == 3


def test_where_much_is_computed_of_a_row_fewer_are_taken_at_once(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tag_module, "_VALUES_AT_ONCE", 6)
    monkeypatch.setattr(tag_module, "_FEWEST_ROWS", 1)
    harness.create("SELECT k, SUM(x), SUM(x + 1), SUM(x + 2) FROM a [TUMBLE 10 SECONDS] GROUP BY k", "q")
    report, buckets = tag(harness, rows((0, 1, 1), (5, 1, 2), (1, 1, 3)))
    assert report.rows == 3
    assert len(buckets) == 2, "three values of each row, six at once"


def test_items_go_only_to_partitions_that_have_rows(harness: CoreHarness) -> None:
    harness.create(JOIN, "join")
    harness.create("SELECT x FROM a", "select")
    program, task = begin(harness, partitions=8)
    table = pa.Table.from_batches([rows((0, 1, 1))])
    (zero, first), *others = tag_stage(program, task, [Piece("a", table, ("bad",), 2)])
    assert zero == 0
    assert b'"bad_files":["bad"],"bad_rows":2' in first
    assert len(others) == 1, "one row is in one partition, and selections are probed by nobody"
    low, high = hash_range(others[0][0], 8)
    assert low <= int(hash_keys([pa.array([1])]).h[0]) <= high


def test_nothing_of_a_file_counts_before_its_last_piece(harness: CoreHarness) -> None:
    harness.create(JOIN, "join")
    program, task = begin(harness)

    def piece(second: int, **more: Any) -> Piece:
        return Piece("a", pa.Table.from_batches([rows((second, 1, second))]), **more)

    items = tag_stage(
        program, task,
        [piece(1), piece(9, more=True), piece(8, more=True), piece(2, void=True, bad_files=("torn",)),
         piece(3, more=True), piece(4, bad_rows=5)],
    )  # fmt: skip
    decoded = [decode_report(item) for _, item in items if is_report(item)]
    reports = [report for report in decoded if isinstance(report, TagReport)]
    assert [report.max_time and report.max_time // 1_000_000 for report in reports] == [1, 2, 3, 4]
    assert [report.bad_files for report in reports] == [(), ("torn",), (), ()]
    assert [report.bad_rows for report in reports] == [0, 0, 0, 5]
    written = {str(path.relative_to(task.data)) for path in Path(task.data).rglob("*.arrow")}
    assert written == {bucket.path for report in reports for bucket in report.buckets}


def test_pieces_shrink_with_the_length_of_query_sets(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tag_module, "_FEWEST_ROWS", 1)
    monkeypatch.setattr(tag_module, "_WORDS_AT_ONCE", 12)
    harness.create_many([(f"SELECT x FROM a WHERE x > {n} OR k < {n}", f"q{n}") for n in range(300)])
    program, _ = begin(harness)
    assert program.words > 4
    assert tag_module.rows_at_once(program.streams["a"]) == 12 // program.words


# ---- failures


def fails(harness: CoreHarness, name: str) -> str:
    return next(record.error for record in harness.core.roster.records.values() if record.name == name)


def test_a_key_that_fails_ends_its_own_query_only(harness: CoreHarness) -> None:
    harness.create(JOIN, "plain")
    harness.create(JOIN + " AND p.x + 1 = q.x", "computed")
    harness.batch({"a": [rows((0, 1, BIGGEST), (0, 1, 4))], "b": [rows((0, 1, 5))]})
    assert "overflow" in fails(harness, "computed")
    assert fails(harness, "plain") == ""
    assert sorted(harness.results("plain")) == [(4, 5), (BIGGEST, 5)]
    harness.batch({"b": [rows((1, 1, 6))]})
    assert len(harness.results("plain")) == 4


def test_a_key_is_not_computed_for_rows_its_query_does_not_want(harness: CoreHarness) -> None:
    harness.create(JOIN, "plain")
    harness.create(JOIN + " AND p.x + 1 = q.x WHERE p.x < 100", "guarded")
    harness.batch({"a": [rows((0, 1, BIGGEST), (0, 1, 4), (0, 2, 8))], "b": [rows((0, 1, 5), (0, 2, 9))]})
    harness.batch({"b": [rows((1, 1, 5), (1, 1, 6))]})
    assert fails(harness, "guarded") == fails(harness, "plain") == ""
    assert sorted(harness.results("guarded")) == [(4, 5), (4, 5), (8, 9)]
    assert len(harness.results("plain")) == 2 + 1 + 4


@pytest.mark.parametrize("order", [("wants_all", "guarded"), ("guarded", "wants_all")])
def test_a_route_that_fails_for_one_query_still_serves_the_others(harness: CoreHarness, order: tuple[str, str]) -> None:
    key = JOIN.replace("p.k = q.k", "p.x + 1 = q.x")
    texts = {"wants_all": key, "guarded": key + " WHERE p.x < 100"}
    for name in order:
        harness.create(texts[name], name)
    harness.batch({"a": [rows((0, 1, BIGGEST), (0, 1, 4))], "b": [rows((0, 1, 5))]})
    assert "overflow" in fails(harness, "wants_all")
    assert fails(harness, "guarded") == ""
    assert harness.results("guarded") == [(4, 5)]


def test_a_predicate_that_fails_on_a_late_row_does_no_harm(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a WHERE 10 div x > 0", "q")
    harness.batch({"a": [rows((10, 1, 5))]})
    harness.batch({"a": [rows((3, 1, 0), (11, 1, 2))]})
    assert fails(harness, "q") == ""
    assert harness.results("q") == [(5,), (2,)]
