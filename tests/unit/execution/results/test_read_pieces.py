"""Any range of a query's rows: the same rows as all of them cut, and no more of them built than are asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.engine_sample import JOIN, STREAMS, WINDOW, open_core, rows
from tests.support.harness import CoreHarness
from tests.support.read_results import read_chunk
from weft.errors import ResultsGone
from weft.execution.results import read
from weft.execution.results.chunk import Found
from weft.execution.results.read import Chunk, Reading, chunks_of, plan_reading, ranges, read_rows
from weft.execution.results.row_widths import row_widths
from weft.plan.query import Output
from weft.planner.strategy import choose_strategy
from weft.spark import result_tables as projected_module
from weft.spark.result_tables import result_tables
from weft.sql import bind

SLIDING = "[RANGE 8 SECONDS SLIDE 2 SECONDS]"
QUERIES = {
    "selection": "SELECT x, s FROM a",
    "windows": f"SELECT x, window_start FROM a {SLIDING}",
    "join": JOIN,
    "turned": f"SELECT q.s, p.x FROM b {WINDOW} q JOIN a {WINDOW} p ON q.k = p.k WHERE p.x > 3",
    "join in windows": f"SELECT p.x, q.x AS y, window_end FROM a {SLIDING} p JOIN b {SLIDING} q ON p.k = q.k",
    "three": f"SELECT p.x, q.x AS y, r.x AS z FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k "
    f"JOIN c {WINDOW} r ON q.k = r.k",
    "three in windows": f"SELECT p.x, r.s, window_start FROM a {SLIDING} p JOIN b {SLIDING} q ON p.k = q.k "
    f"JOIN c {SLIDING} r ON q.k = r.k",
    "sessions": "SELECT p.x, q.x AS y FROM a [SESSION 2 SECONDS] p JOIN b [SESSION 2 SECONDS] q ON p.k = q.k",
    "groups": "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM a [TUMBLE 5 SECONDS] GROUP BY k",
}


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> CoreHarness:
    made = open_core(tmp_path_factory.mktemp("read") / "state", partitions=2)
    made.create_many([(sql, name.replace(" ", "_")) for name, sql in QUERIES.items()])
    dice = random.Random(7)
    for batch in range(3):
        made.batch(
            {
                name: [
                    rows(*((10 * batch + dice.random() * 9, dice.randrange(3), n, None, "t" * n) for n in range(size)))
                    for size in (9, 5)
                ]
                for name in "abc"
            }
        )
    made.batch({name: [rows((100, 99, 0))] for name in "abc"})
    return made


def of(harness: CoreHarness, name: str) -> tuple[Reading, list[Chunk]]:
    record = harness._record(name.replace(" ", "_"))
    data = str(harness.core.directory.path("data"))
    reading = plan_reading(
        record,
        harness.core.roster.bound_query(record.id),
        choose_strategy(harness.core.roster.bound_query(record.id), record.route),
        harness.core.streams,
        data=data,
    )
    return reading, list(chunks_of(reading, harness.core.inventory.results_of(0)))


def listed(tables: Iterator[pa.Table]) -> list[dict[str, Any]]:
    return [row for table in tables for row in table.to_pylist()]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("rows_at_once", "bytes_at_once"), [(1 << 17, 32 << 20), (3, 32 << 20), (1 << 17, 60)])
def test_a_range_is_the_same_as_all_rows_cut(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch, name: str, rows_at_once: int, bytes_at_once: int
) -> None:
    reading, chunks = of(harness, name)
    every = listed(read_chunk(reading, chunk) for chunk in chunks)
    assert len(every) > 10
    monkeypatch.setattr(read, "PIECE_ROWS", rows_at_once)
    monkeypatch.setattr(read, "PIECE_BYTES", bytes_at_once)
    assert listed(piece for chunk in chunks for piece in read_rows(reading, chunk)) == every
    for skip, limit in ((0, 1), (1, 5), (len(every) // 2, 7), (len(every) - 2, 9), (len(every), 3), (0, None)):
        cut = every[skip:] if limit is None else every[skip : skip + limit]
        assert listed(each.build() for each in ranges(reading, chunks, skip=skip, limit=limit)) == cut
        alone = list[dict[str, Any]]()
        for each in ranges(reading, chunks, skip=skip, limit=limit):
            chunk, before, total = each.alone()
            found = read_chunk(reading, Chunk.from_json(chunk.to_json()))
            assert found.num_rows == total
            alone += found.slice(before, each.rows).to_pylist()
        assert alone == cut, "who reads elsewhere gets the same rows"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were built at a time."""
    sizes: list[int] = []
    build = Found.build

    def counted(self: Found, first: int, last: int) -> pa.Table:
        sizes.append(last - first)
        return build(self, first, last)

    monkeypatch.setattr(Found, "build", counted)
    return sizes


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> CoreHarness:
    """A self-join of 600 equal keys: 360,000 pairs of one batch."""
    made = open_core(tmp_path_factory.mktemp("pairs") / "state", partitions=1)
    made.create(f"SELECT p.x, q.x AS y, p.s FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.k", "self")
    made.batch({"a": [rows(*((0, 1, n, None, "text") for n in range(600)))]})
    return made


def test_one_row_of_many_pairs_builds_one_row(pairs: CoreHarness, built: list[int]) -> None:
    reading, chunks = of(pairs, "self")
    outputs = pairs.core.roster.bound_query(pairs._record("self").id).outputs
    nothing: Any = lambda: None  # noqa: E731 nobody computes with it
    (first,) = result_tables(nothing, reading, chunks, outputs, limit=1)
    (late,) = result_tables(nothing, reading, chunks, outputs, skip=350_000, limit=1)
    assert (first.num_rows, late.num_rows, built) == (1, 1, [1, 1])


@pytest.mark.parametrize(
    ("text", "most_rows"), [("repeat(space(1000), 100)", 2684), ("repeat(p.s, 100)", 131_072), ("upper(p.s)", 131_072)]
)
def test_rows_that_spark_makes_large_come_in_small_groups(
    pairs: CoreHarness, monkeypatch: pytest.MonkeyPatch, text: str, most_rows: int
) -> None:
    """One job of Spark's makes at most 256 MB, by what the query says."""
    reading, chunks = of(pairs, "self")
    made = open_outputs(f"SELECT {text} AS t FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.k")
    jobs: list[int] = []

    def counted(
        spark: Any, reading: Reading, chunks: list[Chunk], outputs: Any, *, within: float
    ) -> Iterator[pa.Table]:
        tables = [read_chunk(reading, chunk) for chunk in chunks]
        jobs.append(sum(table.num_rows for table in tables))
        return iter(tables)

    monkeypatch.setattr(projected_module, "read_results", counted)
    nothing: Any = lambda: None  # noqa: E731 nobody computes with it
    total = sum(table.num_rows for table in result_tables(nothing, reading, chunks, made, limit=40_000))
    assert total == 40_000
    assert max(jobs) <= most_rows
    assert len(jobs) == -(-40_000 // min(most_rows, 40_000))


def open_outputs(sql: str) -> tuple[Output, ...]:
    return bind(sql, STREAMS).outputs


def test_all_rows_come_in_pieces_of_bounded_size(pairs: CoreHarness, built: list[int]) -> None:
    reading, chunks = of(pairs, "self")
    assert sum(table.num_rows for chunk in chunks for table in read_rows(reading, chunk)) == 600 * 600
    assert len(built) > 2
    assert max(built) <= read.PIECE_ROWS


def test_large_rows_come_in_small_pieces(tmp_path: Path, built: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """One text of 10 kB among short ones meets 40 others: together they would be 400 kB."""
    monkeypatch.setattr(read, "PIECE_BYTES", 50_000)
    harness = open_core(tmp_path / "state", partitions=1)
    harness.create(f"SELECT p.s, q.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k", "q")
    texts = ["x" * 10_000 if n == 7 else "x" for n in range(20)]
    harness.batch(
        {
            "a": [rows(*((0, 1, n, None, text) for n, text in enumerate(texts)))],
            "b": [rows(*((0, 1, n) for n in range(40)))],
        }
    )
    reading, chunks = of(harness, "q")
    tables = [table for chunk in chunks for table in read_rows(reading, chunk)]
    assert sum(table.num_rows for table in tables) == 800
    assert max(sum(map(len, table["0.s"].to_pylist())) for table in tables) <= 50_000


def test_a_row_that_is_too_large_comes_alone(tmp_path: Path, built: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "PIECE_BYTES", 100)
    harness = open_core(tmp_path / "state", partitions=1)
    harness.create("SELECT s FROM a", "q")
    harness.batch({"a": [rows((0, 1, 0, None, "a"), (0, 1, 1, None, "x" * 1000), (0, 1, 2, None, "b"))]})
    reading, chunks = of(harness, "q")
    assert len(listed(table for chunk in chunks for table in read_rows(reading, chunk))) == 3
    assert built == [1, 1, 1]


@pytest.mark.parametrize("name", QUERIES)
def test_files_that_are_gone_are_said_to_be(harness: CoreHarness, name: str) -> None:
    reading, chunks = of(harness, name)
    elsewhere: Any = {field: getattr(reading, field) for field in reading.__slots__} | {"data": reading.data + "-not"}
    with pytest.raises(ResultsGone, match=f'rows of query "{reading.name}" are not kept any more'):
        read_chunk(Reading(**elsewhere), chunks[0])


def test_widths_are_those_of_each_row() -> None:
    table = pa.RecordBatch.from_pydict(
        {
            "n": pa.array([1, 2, 3], pa.int64()),
            "s": pa.array(["a", None, "xyz"]),
            "l": pa.array([["aa"], [], ["b", "cccc"]]),
            "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
            "t": pa.array([{"u": "abc"}, {"u": ""}, {"u": "z"}]),
            "d": pa.nulls(3),
        }
    )
    every = np.arange(3)
    assert row_widths(table, ["n"], every) == (8, None)
    fixed, varying = row_widths(table, ["n", "s"], np.array([2, 0]))
    assert (fixed, [] if varying is None else varying.tolist()) == (16, [3, 1])
    for name, least in (("l", [2, 0, 5]), ("m", [5, 0, 0]), ("t", [3, 0, 1])):
        _, varying = row_widths(table.slice(0), [name], every)
        assert varying is not None
        assert all(found >= known for found, known in zip(varying, least, strict=True))
        assert all(a != b for a, b in pairwise(varying) if name == "s")
    assert row_widths(table, ["d", "not there"], every)[1] is None
    _, sliced = row_widths(table.slice(2), ["s"], np.array([0]))
    assert sliced is not None
    assert sliced.tolist() == [3]
