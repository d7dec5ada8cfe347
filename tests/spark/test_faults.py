"""One bad source, query or batch hurts only itself: the others go on, and what failed is named."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.spark.support import DDL, Place, events, put, rows, steps, wait_for
from weft import WeftError
from weft.engine.batches import attempt as attempts
from weft.engine.batches import batches
from weft.execution.program import Program
from weft.spark.batch_job import BatchRunner

pytestmark = pytest.mark.spark


def _failing_while(place: Place, name: str, flag: Path) -> Any:
    """A DataFrame stream whose rows cannot be computed while a file exists."""

    def check(parts: Iterable[pa.RecordBatch], flag: str = str(flag)) -> Iterator[pa.RecordBatch]:
        for part in parts:
            if os.path.exists(flag):
                raise OSError("unmistakable cause")
            yield part

    (place.root / name).mkdir(exist_ok=True)
    return place.spark.readStream.schema(DDL).parquet(str(place.root / name)).mapInArrow(check, DDL)


def test_a_source_that_fails_stops_only_its_own_queries(place: Place) -> None:
    flag = place.root / "down"
    engine = place.engine()
    place.streams(engine, "good", lateness="1 day")
    engine.stream("bad", _failing_while(place, "bad", flag), time="ts", lateness="1 day")
    good = engine.create("SELECT v FROM good")
    bad = [
        engine.create("SELECT v FROM bad"),
        engine.create("SELECT v FROM bad WHERE upper(name) = 'A'"),
        engine.create("SELECT v FROM bad WHERE lower(name) = 'a'"),
    ]
    flag.touch()
    place.put("bad", (0, 1, 1, "a"))
    place.put("good", (0, 1, 2))
    engine.start("50 milliseconds")
    wait_for(lambda: "bad" in engine.stream_errors(), "the failing stream is known")
    wait_for(lambda: rows(good) == [(2,)], "the good stream goes on")
    place.put("good", (1, 1, 3))
    wait_for(lambda: rows(good) == [(2,), (3,)], "it still does")
    assert engine.running
    assert engine.health().failing_streams == ("bad",)
    assert [query.state for query in bad] == ["live"] * 3, "a source's error is no query's"
    flag.unlink()
    wait_for(lambda: all(rows(query) == [(1,)] for query in bad), "the stream is read again, each row once")
    wait_for(lambda: not engine.stream_errors(), "nothing is wrong any more")


def test_a_directory_that_is_away_comes_back_and_no_row_twice(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b", lateness="1 day")
    first, second = engine.create("SELECT v FROM a"), engine.create("SELECT v FROM b")
    place.put("a", (0, 1, 1))
    steps(engine)
    (place.root / "a").rename(place.root / "away")
    place.put("b", (0, 1, 5))
    summary = engine.step()
    assert summary is not None
    assert set(summary.streams) == {"b"}
    with pytest.raises(WeftError, match=r'directory ".*/a" of stream "a" cannot be read') as failed:
        engine.step()
    assert failed.value.code == "source_unavailable"
    (place.root / "away").rename(place.root / "a")
    place.put("a", (1, 1, 2))
    steps(engine)
    assert [rows(first), rows(second)] == [[(1,), (2,)], [(5,)]]


def test_a_new_source_is_tried_before_it_is_declared(place: Place) -> None:
    engine = place.engine()
    nobody = place.spark.readStream.format("socket").option("host", "127.0.0.1").option("port", 1)
    frame = nobody.option("includeTimestamp", "true").load()
    with pytest.raises(WeftError) as refused:
        engine.stream("a", frame, time="timestamp")
    assert refused.value.code == "invalid_stream"
    assert "refused" in refused.value.detail
    assert engine.streams() == ()
    place.streams(engine, "b")
    query = engine.create("SELECT v FROM b")
    place.put("b", (0, 1, 1))
    steps(engine)
    assert rows(query) == [(1,)]


def test_a_detached_dataframe_matters_only_to_those_who_read_it(place: Place) -> None:
    engine = place.engine()
    place.put("f", (0, 1, 1))
    frame = place.spark.readStream.schema(DDL).parquet(str(place.root / "f"))
    engine.stream("f", frame, time="ts")
    place.streams(engine, "a")
    engine.create("SELECT v FROM a", name="q")
    engine = place.engine()
    place.put("a", (0, 1, 1))
    steps(engine)
    assert rows(engine.query("q")) == [(1,)]
    engine.create("SELECT v FROM f", name="of_f")
    with pytest.raises(WeftError) as refused:
        engine.start()
    assert refused.value.code == "detached_stream"


def test_a_stream_can_be_dropped(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b")
    place.put("a", (0, 1, 1))
    place.put("b", (0, 1, 1))
    query, other = engine.create("SELECT v FROM a", name="q"), engine.create("SELECT v FROM b", name="other")
    steps(engine)
    with pytest.raises(WeftError, match='read by query "q"'):
        engine.drop_stream("a")
    with pytest.raises(WeftError) as unknown:
        engine.drop_stream("nowhere")
    assert unknown.value.code == "unknown_stream"
    engine.drop_stream("a", cascade=True)
    assert query.state == "dropped"
    assert [stream.name for stream in engine.streams()] == ["b"]
    engine = place.engine()
    assert [stream.name for stream in engine.streams()] == ["b"]
    engine.stream("a", weft.files(place.root / "a", schema="ts timestamp, k bigint"), time="ts")
    again = engine.create("SELECT k FROM a")
    steps(engine)
    assert rows(again) == [(1,)], "a new stream begins with its first file"
    assert rows(engine.query("other")) == rows(other) == [(1,)]


def test_files_of_any_age_are_read(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create("SELECT v FROM a")
    place.put("a", (0, 1, 1))
    steps(engine)
    old = put(place.root / "a", events((1, 1, 2)), "old.parquet")
    os.utime(old, (1.0, 1.0))
    steps(engine)
    assert rows(query) == [(1,), (2,)]


class _Poisoned(BatchRunner):
    """A runner whose batches fail, or never end, while a query with a certain predicate is in them."""

    ends = True

    def run(self, frames: Any, program: Program, task: Any) -> list[dict[str, Any]]:
        if "666" in repr([role.index for tag in program.streams.values() for role in tag.roles]):
            if self.ends:
                raise RuntimeError("the worker was killed")
            for _ in range(600):
                time.sleep(0.05)
                if self.cancelled:
                    self.cancelled = False
                    raise RuntimeError("cancelled")
        return super().run(frames, program, task)

    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@pytest.mark.parametrize("ends", [True, False], ids=["fails", "hangs"])
def test_the_query_at_fault_is_found_and_set_aside(place: Place, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    monkeypatch.setattr("weft.engine.engine.BatchRunner", _Poisoned)
    monkeypatch.setattr(_Poisoned, "ends", ends)
    monkeypatch.setattr(batches, "_SHORTEST_TRIAL", 2.0)
    engine = place.engine(batch_limit="3 seconds")
    place.streams(engine, "a")
    good = [engine.create(f"SELECT v FROM a WHERE v < {n}") for n in range(10, 15)]
    bad = engine.create("SELECT v FROM a WHERE v < 666")
    place.put("a", (0, 1, 1))
    (summary,) = steps(engine)
    assert summary.queries == 5
    assert bad.state == "failed"
    assert ("the worker was killed" if ends else "longer than 2 seconds") in bad.error
    assert [rows(query) for query in good] == [[(1,)]] * 5
    assert not list((place.state / "data").rglob("*666*"))
    engine = place.engine()
    assert engine.query(bad.name).state == "failed"


def test_a_drop_takes_effect_although_the_batch_never_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.engine.engine.BatchRunner", _Poisoned)
    monkeypatch.setattr(_Poisoned, "ends", False)
    monkeypatch.setattr(attempts, "_DROP_PATIENCE", 0.5)
    monkeypatch.setattr(attempts, "_FIRST_PATIENCE", 0.5)
    engine = place.engine()
    place.streams(engine, "a")
    good, bad = engine.create("SELECT v FROM a WHERE v < 10"), engine.create("SELECT v FROM a WHERE v < 666")
    engine.start("50 milliseconds")
    place.put("a", (0, 1, 1))
    wait_for(lambda: engine.health().running_for > 0, "the batch hangs")
    bad.drop()
    wait_for(lambda: bad.state == "dropped", "the query is dropped", 30)
    wait_for(lambda: rows(good) == [(1,)], "the batch is run without it", 30)
    assert good.complete_from is None
    assert engine.running
    assert engine.health().failures == 0, "what is given up for a drop has not failed"


def test_a_passing_fault_is_repeated_and_nobody_is_blamed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    class _Once(BatchRunner):
        def run(self, frames: Any, program: Program, task: Any) -> list[dict[str, Any]]:
            tries.append(task.batch)
            if len(tries) == 1:
                raise RuntimeError("lost a worker")
            return super().run(frames, program, task)

    monkeypatch.setattr("weft.engine.engine.BatchRunner", _Once)
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create("SELECT v FROM a")
    place.put("a", (0, 1, 1))
    assert len(steps(engine)) == 1
    assert tries == [0, 0]
    assert (query.state, rows(query)) == ("live", [(1,)])
