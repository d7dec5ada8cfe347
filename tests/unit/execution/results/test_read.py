"""Reading one query's rows out of the shared log: its own and no others, in its own columns and order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.engine_sample import JOIN, WINDOW, open_core, rows, stream
from tests.support.harness import CoreHarness
from tests.support.read_results import read_chunk
from weft.execution.join import row_references as row_parts
from weft.execution.results.read import Chunk, Reading, chunks_of, plan_reading
from weft.execution.results.reading import BucketRows, CombinationRows, PiecePairs, WindowCells
from weft.kernels import large_text as wide
from weft.planner.strategy import choose_strategy
from weft.spark.select_list import read_results, read_schema, to_rows
from weft.storage.result_files import PartRef


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state", partitions=2)


def reading(harness: CoreHarness, name: str) -> Reading:
    record = harness._record(name)
    data = str(harness.core.directory.path("data"))
    return plan_reading(
        record,
        harness.core.roster.bound_query(record.id),
        choose_strategy(harness.core.roster.bound_query(record.id), record.route),
        harness.core.streams,
        data=data,
    )


def tables(harness: CoreHarness, name: str) -> list[pa.Table]:
    found = reading(harness, name)
    return [read_chunk(found, chunk) for chunk in chunks_of(found, harness.core.inventory.results)]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def test_columns_are_named_by_relation_in_the_order_of_the_query(harness: CoreHarness) -> None:
    harness.create(f"SELECT q.s, p.x, p.j FROM b {WINDOW} q JOIN a {WINDOW} p ON q.k = p.k", "turned")
    harness.batch({"a": [rows((0, 1, 5, 6))], "b": [rows((0, 1, 7, 8, "text"))]})
    (table,) = tables(harness, "turned")
    assert table.schema == reading(harness, "turned").schema
    assert table.to_pylist() == [{"0.s": "text", "1.x": 5, "1.j": 6}]


def test_two_roles_of_one_stream_are_told_apart(harness: CoreHarness) -> None:
    harness.create(f"SELECT p.x AS px, q.x AS qx FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.j", "self")
    harness.batch({"a": [rows((0, 1, 10, 2), (0, 2, 20, 3))]})
    assert harness.results("self") == [(20, 10)]


def test_windows_come_with_each_row_that_is_in_them(harness: CoreHarness) -> None:
    window = "[RANGE 8 SECONDS SLIDE 4 SECONDS]"
    harness.create("SELECT x, window_start, window_end FROM a " + window, "select")
    harness.create(f"SELECT p.x, window_start, window_end FROM a {window} p JOIN b {window} q ON p.k = q.k", "join")
    harness.batch({"a": [rows((9, 1, 1))], "b": [rows((12, 1, 2))]})
    assert sorted(harness.results("select")) == [(1, at(4), at(12)), (1, at(8), at(16))]
    assert harness.results("join") == [(1, at(8), at(16))]


def test_only_batches_of_the_querys_life_are_looked_at(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "other")
    harness.batch({"a": [rows((0, 1, 0))]})
    harness.create("SELECT x FROM a", "q")
    harness.batch({"a": [rows((1, 1, 1))]})
    harness.batch({"a": [rows((2, 1, 2))]})
    harness.drop("q")
    harness.create("SELECT x FROM a WHERE x > 3", "heir")
    harness.batch({"a": [rows((3, 1, 3), (3, 1, 4))]})
    assert len(list(chunks_of(reading(harness, "q"), harness.core.inventory.results))) == 2
    assert harness.results("q") == [(1,), (2,)]
    assert harness.results("heir") == [(4,)]
    assert harness.results("other") == [(0,), (1,), (2,), (3,), (4,)]


def test_rows_older_than_the_query_are_not_its_own_even_in_a_new_pair(harness: CoreHarness) -> None:
    harness.create(JOIN, "first")
    harness.batch({"a": [rows((0, 1, 1))]})
    harness.create(JOIN, "second")
    harness.batch({"a": [rows((1, 1, 2))], "b": [rows((1, 1, 3))]})
    assert sorted(harness.results("first")) == [(1, 3), (2, 3)]
    assert harness.results("second") == [(2, 3)]


@pytest.mark.parametrize("sql", ["SELECT 1 AS one FROM a", JOIN.replace("p.x AS px, q.x AS qx", "1 AS one")])
def test_constants_still_have_their_number_of_rows(harness: CoreHarness, sql: str) -> None:
    harness.create(sql, "q")
    harness.batch({"a": [rows((0, 1, 1), (0, 1, 2), (0, 9, 3))], "b": [rows((0, 1, 3), (0, 9, 1))]})
    found = [table for table in tables(harness, "q") if table.num_rows]
    assert sum(table.num_rows for table in found) == 3
    assert {table.schema for table in found} == {read_schema(reading(harness, "q"))}


def test_nested_columns_travel(tmp_path: Path) -> None:
    harness = open_core(tmp_path, streams=[stream("a", ddl="ts timestamp, t array<int>, m struct<`a b`:string>")])
    harness.create("SELECT t, m FROM a", "q")
    value = {"ts": at(0), "t": [1, None], "m": {"a b": "x"}}
    harness.batch({"a": [pa.RecordBatch.from_pylist([value], schema=pa.schema(
        [("ts", pa.timestamp("us", "UTC")), ("t", pa.list_(pa.int32())), ("m", pa.struct([("a b", pa.string())]))]
    ))]})  # fmt: skip
    assert harness.results("q") == [([1, None], {"a b": "x"})]


def test_a_dropped_query_is_read_from_its_own_time_after_a_restart(harness: CoreHarness) -> None:
    harness.create(JOIN, "q")
    harness.batch({"a": [rows((0, 1, 1))], "b": [rows((0, 1, 2))]})
    harness.drop("q")
    harness.batch({"a": [rows((50, 1, 1))], "b": [rows((50, 1, 2))]})
    harness.core.checkpoint()
    harness.reopen(3)
    assert harness.results("q") == [(1, 2)]


def test_a_chunk_travels_as_json() -> None:
    first, second = PartRef("0/a", 1), PartRef("é", 0)
    sources = (
        BucketRows(second), PiecePairs("0/p", 3, first, second), CombinationRows("0/c", (first, second)),
        WindowCells(("0/w", "0/v")),
    )  # fmt: skip
    for source in sources:
        for chunk in (Chunk(source), Chunk(source, 3, 9)):
            assert Chunk.from_json(chunk.to_json()) == chunk


def test_plain_columns_are_projected_without_spark(harness: CoreHarness) -> None:
    harness.create("SELECT s AS text, ts, x AS text2 FROM a", "q")
    harness.batch({"a": [rows((1, 1, 5, 6, "é"))]})
    found = reading(harness, "q")
    chunks = list(chunks_of(found, harness.core.inventory.results))
    nothing: Any = None
    outputs = harness.core.roster.bound_query(harness._record("q").id).outputs
    (table,) = read_results(nothing, found, chunks, outputs)
    (row,) = to_rows(table)
    assert (row.text, row.ts, row.text2) == ("é", at(1), 5)


WIDE_JOIN = (
    "SELECT p.s AS ps, q.s AS qs, r.x AS rx FROM a [RANGE 10 SECONDS] p JOIN b [RANGE 10 SECONDS] q ON p.k = q.k "
    "JOIN c [RANGE 10 SECONDS] r ON q.j = r.j AND p.s <> r.s"
)


@pytest.mark.parametrize("most", [1, 40, 1 << 20])
def test_rows_of_much_text_are_built_in_pieces(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Text with 32-bit offsets ends at 2 GiB; here it ends sooner."""
    monkeypatch.setattr(row_parts, "PIECE_BYTES", most)
    monkeypatch.setattr(wide, "MOST_BYTES", most)
    harness.create(f"SELECT p.s AS ps, q.s AS qs FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k", "join")
    harness.create("SELECT s FROM a", "select")
    harness.create(WIDE_JOIN, "wide")
    session = "[SESSION 5 SECONDS]"
    harness.create(f"SELECT p.s AS ps, q.s AS qs FROM a {session} p JOIN b {session} q ON p.k = q.k", "session")
    harness.create(
        f"SELECT p.s AS s, COUNT(*) AS n FROM a {session} p JOIN b {session} q ON p.s = q.s GROUP BY p.s", "n"
    )
    for n in range(2):
        harness.batch({name: [rows(*((n, 1, x, 1, f"{name}{n}{x}" * 5) for x in range(3)))] for name in "abc"})
    for n in (30, 60):
        harness.batch({name: [rows((n, 2, 1, 2, "end"))] for name in "ab"})
    lefts, rights = ([f"{name}{n}{x}" * 5 for n in range(2) for x in range(3)] for name in "ab")
    pairs = sorted((left, right) for left in lefts for right in rights)
    assert sorted(harness.results("join")) == [*pairs, ("end", "end"), ("end", "end")]
    assert sorted(harness.results("select")) == [*((left,) for left in lefts), ("end",), ("end",)]
    assert sorted(harness.results("session")) == [*pairs, ("end", "end")]
    assert sorted(harness.results("wide")) == sorted((*pair, x) for pair in pairs for x in (0, 1, 2) for _ in range(2))
    assert harness.results("n") == [("end", 1)]
    chunks = {table.column(0).num_chunks for table in tables(harness, "join") if table.num_rows}
    assert (max(chunks) > 1) == (most < 100)
