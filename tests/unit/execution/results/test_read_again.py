"""Pages of an aggregate's batch: what all of them need is found once, in bounded memory, and rows keep their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.engine_sample import open_core, rows
from tests.support.harness import CoreHarness
from tests.support.read_results import read_chunk
from weft.execution.results import chunk as found
from weft.execution.results import read
from weft.execution.results.read import Chunk, Reading, chunks_of, plan_reading
from weft.execution.results.recent import UNUSED_SECONDS, RecentCache
from weft.planner.strategy import choose_strategy
from weft.spark import result_tables as projected

TUMBLE = "SELECT k, COUNT(*) AS n FROM a [TUMBLE 10 SECONDS] GROUP BY k"
GROUPS = 50


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    """A batch that ends a window with 50 groups, in two partitions."""
    made = open_core(tmp_path / "state", partitions=2)
    made.create(TUMBLE, "all")
    made.create(TUMBLE + " HAVING COUNT(*) > 1", "some")
    made.batch({"a": [rows(*((0, k, n) for k in range(GROUPS) for n in range(1 + k % 2)))]})
    made.batch({"a": [rows((60, 0, 0))]})
    return made


def pages(harness: CoreHarness, name: str, size: int, most_bytes: int | None = None) -> Iterator[pa.Table]:
    """Pages of the rows of a query, as tables."""
    record, core = harness._record(name), harness.core
    query = core.roster.bound_query(record.id)
    reading = plan_reading(
        record, query, choose_strategy(query, record.route), core.streams, data=str(core.directory.path("data"))
    )
    nothing: Any = lambda: None  # noqa: E731 nobody computes with it
    skip = 0
    while True:
        chunks = list(chunks_of(reading, core.inventory.results_of(0)))
        tables = list(
            projected.result_tables(
                nothing, reading, chunks, query.outputs, skip=skip, limit=size, most_bytes=most_bytes
            )
        )
        if not tables:
            return
        yield from tables
        skip += sum(table.num_rows for table in tables)


def counting(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    calls, real = list[int](), getattr(module, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        return real(*arguments, **named)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_groups_are_found_once_for_all_pages(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, every page of a million groups merged the million."""
    (whole,) = pages(harness, "all", 1000)
    monkeypatch.setattr(found, "_GROUPS", RecentCache(1 << 20))
    merged = counting(monkeypatch, found, "compact")
    every = list(pages(harness, "all", 7))
    assert len(every) == -(-GROUPS // 7)
    assert pa.concat_tables(every).equals(whole)
    assert len(merged) == 1


def test_what_does_not_fit_is_found_again(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = pages(harness, "all", 1000)
    monkeypatch.setattr(found, "_GROUPS", RecentCache(10))
    assert pa.concat_tables(list(pages(harness, "all", 7))).equals(whole)


def without_spark(
    spark: Any, reading: Reading, chunks: Sequence[Chunk], outputs: Any, *, within: float
) -> Iterator[pa.Table]:
    """What Spark would give."""
    for chunk in chunks:
        table = read_chunk(reading, chunk)
        yield table.filter(pc.greater(table["a0"], 1)).rename_columns(["k", "n", "begin", "end"])


@pytest.mark.parametrize("room", [1 << 20, 10])
def test_pages_with_having_compute_no_row_before_them_again(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Before, each page computed all rows from the beginning of the batch on, by Spark."""
    monkeypatch.setattr(projected, "read_results", without_spark)
    monkeypatch.setattr(projected, "_TABLES", RecentCache(room))
    monkeypatch.setattr(projected, "_COUNTS", RecentCache(1000))
    monkeypatch.setattr(projected, "PIECE_ROWS", 10)
    monkeypatch.setattr(read, "PIECE_ROWS", 10)
    computed = counting(monkeypatch, projected, "read_results")
    every = list(pages(harness, "some", 3))
    together = pa.concat_tables(every)
    assert sorted(together["k"].to_pylist()) == list(range(1, GROUPS, 2))
    assert max(table.num_rows for table in every) <= 3
    pieces, shown = GROUPS // 10, len(every)
    assert len(computed) == pieces if room > 10 else len(computed) <= shown + pieces


def test_pages_with_having_are_bounded_in_bytes(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, this bound was ignored."""
    monkeypatch.setattr(projected, "read_results", without_spark)
    monkeypatch.setattr(projected, "_TABLES", RecentCache(1 << 20))
    every = list(pages(harness, "some", 100, most_bytes=200))
    assert sum(table.num_rows for table in every) == GROUPS // 2
    assert max(table.nbytes for table in every) <= 200


# ---- what is kept


def test_what_was_not_used_for_longest_goes_first() -> None:
    kept = RecentCache[str](10)
    kept.put("a", "A", 4)
    kept.put("b", "B", 4)
    assert kept.get("a") == "A"
    kept.put("c", "C", 4)
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]
    kept.put("a", "AA", 6)
    assert (kept.get("a"), kept.bytes) == ("AA", 10)
    kept.put("d", "D", 11)
    assert [kept.get(key) for key in "acd"] == ["AA", "C", None], "what is too large drives nothing out"


def test_what_nobody_has_used_for_a_while_goes() -> None:
    """Before, results that nobody could read any more stayed in memory up to the bound, which a service reaches after
    some hours."""
    now = [0.0]
    kept = RecentCache[str](100, clock=lambda: now[0])
    kept.put("a", "A", 4)
    kept.put("b", "B", 4)
    now[0] = UNUSED_SECONDS
    assert kept.get("b") == "B"
    now[0] += 1
    assert kept.get("other") is None
    assert (len(kept), kept.bytes) == (1, 4), "a was not used for longer than a minute"
    assert kept.get("b") == "B"
