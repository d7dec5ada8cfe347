"""Requests while batches run and while nothing does: pending, live, dropped, and from when on results are complete."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread
from weakref import WeakSet

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import weft
from tests.spark.support import DDL, Place, at, ordered, rows, steps, wait_for
from weft.execution.input import listing
from weft.spark import warm_up as warm

pytestmark = pytest.mark.spark
TICK = timedelta(microseconds=1)


def _gated(place: Place, name: str) -> DataFrame:
    """A stream whose batches say when they have begun and end when they may."""
    begun, may_end = str(place.root / "begun"), str(place.root / "may_end")

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            Path(begun).touch()
            while not Path(may_end).exists():
                time.sleep(0.02)
            yield batch

    (place.root / name).mkdir()
    return place.spark.readStream.schema(DDL).parquet(str(place.root / name)).mapInArrow(wait, DDL)


def test_requests_during_a_batch_wait_for_its_end(place: Place) -> None:
    engine = place.engine()
    engine.stream("a", _gated(place, "a"), time="ts")
    stays = engine.create("SELECT v FROM a", name="stays")
    leaves = engine.create("SELECT v FROM a", name="leaves")
    place.put("a", (0, 1, 1), (1, 1, 2))
    engine.start("50 milliseconds")
    wait_for((place.root / "begun").exists, "the batch is running")
    comes = engine.create("SELECT v FROM a", name="comes")
    never = engine.create("SELECT v FROM a", name="never")
    assert (comes.state, never.state) == ("pending", "pending")
    assert comes.complete_from is None
    assert comes.deployment_latency is None
    assert not comes.wait_live(0.05)
    assert rows(comes) == []
    assert "pending" in comes.explain()
    assert {query.name for query in engine.queries()} == {"stays", "leaves", "comes", "never"}
    never.drop()
    assert never.state == "dropped"
    again = engine.create("SELECT k FROM a", name="never")
    leaves.drop()
    assert leaves.state == "live"
    (place.root / "may_end").touch()
    assert comes.wait_live(60)
    assert (comes.state, again.state, leaves.state, never.state) == ("live", "live", "dropped", "dropped")
    assert comes.complete_from == at(1) + TICK
    assert comes.deployment_latency is not None
    assert comes.deployment_latency > timedelta(0)
    place.put("a", (1, 1, 3), (2, 1, 4))
    wait_for(lambda: len(rows(stays)) == 4, "the second batch is committed")
    assert rows(leaves) == [(1,), (2,)]  # the batch that was running when it was dropped still counts
    assert rows(comes) == [(4,)]
    assert rows(again) == [(1,)]
    assert rows(never) == []
    assert list(never.tail()) == []


def test_requests_on_idle_streams_take_effect_at_once(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    before = engine.create("SELECT v FROM a", name="before")
    assert before.state == "live"
    assert before.deployment_latency is not None
    before.drop()
    assert before.state == "dropped"
    place.put("a", (5, 1, 1))
    assert steps(engine) == [], "a stream that no live query reads is not read: its files wait"
    engine.start("50 milliseconds")
    time.sleep(0.3)
    started = time.monotonic()
    during = engine.create("SELECT v FROM a", name="before")
    assert during.wait_live(60)
    assert during.state == "live"
    wait_for(lambda: rows(during) == [(1,)], "the file that has waited is read")
    during.drop()
    assert during.state == "dropped"
    assert time.monotonic() - started < 60
    last = engine.create("SELECT v FROM a", name="last")
    place.put("a", (5, 1, 2), (6, 1, 3))
    wait_for(lambda: rows(last), "the batch is committed")
    assert rows(last) == [(3,)]
    assert last.complete_from == at(5) + TICK
    assert rows(before) == []


def test_drop_many_is_one_change(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    queries = engine.create_many(["SELECT v FROM a"] * 3)
    engine.drop_many(queries[:2])
    assert [query.state for query in queries] == ["dropped", "dropped", "live"]
    with pytest.raises(weft.WeftError) as refused:
        engine.drop_many([queries[2], queries[0]])
    assert refused.value.code == "unknown_query"
    assert queries[2].state == "live"


def test_tail_follows_the_commits(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=1)
    query = engine.create("SELECT v, ts, v + 1 AS next FROM a")
    assert list(query.tail()) == []
    place.put("a", (0, 1, 1))
    steps(engine)
    seen: list[tuple[object, ...]] = []
    engine.start("50 milliseconds")
    follower = Thread(target=lambda: seen.extend(query.tail()))
    follower.start()
    for number in range(2, 4):
        place.put("a", (number, 1, number))
        wait_for(lambda n=number: len(seen) == n, f"row {number} comes through the tail")  # type: ignore[misc]
    query.drop()
    follower.join(60)
    assert not follower.is_alive()
    assert seen == [(1, at(0), 2), (2, at(2), 3), (3, at(3), 4)]
    assert seen[0][1].tzinfo is not None  # type: ignore[attr-defined]
    assert [row.next for row in query.tail(from_batch=2)] == [4]


def test_a_query_sees_nothing_from_before_its_creation(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b", lateness="10 seconds")
    join = "SELECT x.v, y.v AS w FROM a [RANGE 5 SECONDS] x JOIN b [RANGE 5 SECONDS] y ON x.k = y.k"
    first = engine.create(join)
    windows = "SELECT v, window_start FROM a [TUMBLE 4 SECONDS]"
    place.put("a", (0, 1, 1), (3, 1, 2))
    place.put("b", (2, 1, 10))
    steps(engine)
    second = engine.create(join)
    windowed = engine.create(windows)
    assert second.complete_from == at(3) + TICK
    place.put("a", (1, 1, 3), (3.5, 1, 4), (4, 1, 5))
    place.put("b", (3, 1, 11), (3.6, 1, 12))
    steps(engine)
    assert rows(first) == ordered([(a, b) for a in range(1, 6) for b in (10, 11, 12)])
    assert rows(second) == [(4, 12), (5, 12)]
    assert rows(windowed) == [(5, at(4))]  # the window [0, 4) began before the query did


def test_a_backlog_is_worked_off_in_pieces(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody said how many files make a batch: there is a limit of bytes all the same, and one file at least."""
    monkeypatch.setattr(listing, "MOST_BYTES", 1)
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create("SELECT v FROM a")
    for number in range(3):
        place.put("a", (number, 1, number))
    assert [summary.rows for summary in steps(engine)] == [1, 1, 1]
    assert rows(query) == [(0,), (1,), (2,)]


def test_stop_finishes_the_batch_that_runs(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    engine = place.engine()
    engine.stream("a", _gated(place, "a"), time="ts")
    query = engine.create("SELECT v FROM a", name="q")
    place.put("a", (0, 1, 1))
    engine.start("50 milliseconds")
    wait_for((place.root / "begun").exists, "the batch is running")
    stopping = Thread(target=engine.stop)
    stopping.start()
    (place.root / "may_end").touch()
    stopping.join(60)
    assert not stopping.is_alive()
    assert rows(query) == [(1,)]
    assert "batch failed" not in caplog.text


def test_the_first_batch_finds_its_workers_warm(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_warm", WeakSet())
    engine = place.engine()
    place.streams(engine, "a")
    place.put("a", (0, 1, 1))
    query = engine.create("SELECT v FROM a")
    engine.start("50 milliseconds")
    assert place.spark.sparkContext in warm._warm
    wait_for(lambda: rows(query) == [(1,)], "the batch is committed")
