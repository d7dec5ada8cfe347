"""A Python worker of Spark's is killed while a batch runs, again and again: no row is lost, and none comes twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

import weft
from tests.spark.support import Place, alone, ordered, rows, steps, within
from weft.errors import WeftError
from weft.execution.program import Program
from weft.spark.batch_job import BatchRunner

pytestmark = pytest.mark.spark

RANGE = "[RANGE 10 SECONDS]"
WINDOW = "epoch_us(ts) // 10000000"
QUERIES = {
    "select": ("SELECT v, name FROM a WHERE v > 10", "SELECT v, name FROM a WHERE v > 10"),
    "opaque": ("SELECT v FROM a WHERE upper(name) = 'N3'", "SELECT v FROM a WHERE upper(name) = 'N3'"),
    "join": (
        f"SELECT x.v, y.v AS w FROM a {RANGE} x JOIN b {RANGE} y ON x.k = y.k",
        f"SELECT a.v, b.v FROM a JOIN b ON a.k = b.k AND {within('a', 'b', 10)}",
    ),
    "sums": (
        "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM b [TUMBLE 10 SECONDS] GROUP BY k",
        f"SELECT k, COUNT(*) AS n, SUM(v) AS s FROM b WHERE {WINDOW} < (SELECT max({WINDOW}) FROM b) "
        f"GROUP BY k, {WINDOW}",
    ),
}
"""Texts for weft, and for DuckDB over all rows; windows that have not ended are not reported."""


class _Killer(BatchRunner):
    """A runner that kills the Python workers of its Spark in some of the attempts, at some moment of each."""

    kills: tuple[bool, ...] = ()
    """Whether attempts that are still to come are hit; later ones are not."""
    hits = 0
    chance = Random(7)

    def run(self, frames: Any, program: Program, task: Any) -> list[dict[str, Any]]:
        kind = type(self)
        wanted, kind.kills = kind.kills[:1] == (True,), kind.kills[1:]
        if not wanted:
            return super().run(frames, program, task)
        ended = threading.Event()
        killer = threading.Thread(target=self._kill, args=(kind.chance.uniform(0, 0.1), ended))
        killer.start()
        try:
            return super().run(frames, program, task)
        except Exception:
            kind.hits += 1
            raise
        finally:
            ended.set()
            killer.join()

    def _kill(self, after: float, ended: threading.Event) -> None:
        """Kill workers, also those that are started anew, until the batch has ended."""
        java = self._spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        ended.wait(after)
        while not ended.is_set():
            for daemon in _children(java):
                for worker in _children(daemon):
                    with suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
            time.sleep(0.002)


def _children(parent: int) -> list[int]:
    """The processes whose parent is this one."""
    found: list[int] = []
    for path in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text(encoding="utf-8").split())
    return found


@pytest.fixture
def engine(place: Place, monkeypatch: pytest.MonkeyPatch) -> weft.Engine:
    monkeypatch.setattr("weft.engine.engine.BatchRunner", _Killer)
    monkeypatch.setattr(_Killer, "hits", 0)
    monkeypatch.setattr(_Killer, "kills", ())
    engine = place.engine()
    place.streams(engine, "a", "b")
    for name, (sql, _) in QUERIES.items():
        sink = weft.parquet(place.root / "out") if name == "join" else None
        engine.create(sql, name=name, sink=sink)
    return engine


def _put(place: Place, tables: dict[str, list[pa.Table]], second: int) -> None:
    for name in "ab":
        table = place.put(name, *((second + n / 1000, n % 20, n % 50, f"n{n % 9}") for n in range(400)))
        tables.setdefault(name, []).append(table)


def _check(place: Place, tables: dict[str, list[pa.Table]]) -> None:
    """What is read from a new engine is what DuckDB has found, and the sink has it once."""
    for engine in (place.engines[-1], place.engine()):
        states = {query.name: (query.state, query.error) for query in engine.queries()}
        assert states == dict.fromkeys(QUERIES, ("live", "")), states
        for name, (_, sql) in QUERIES.items():
            assert rows(engine.query(name)) == alone(tables, sql), name
    delivered = pa.dataset.dataset(place.root / "out", format="parquet").to_table()
    found = ordered(zip(*(column.to_pylist() for column in delivered.columns), strict=True))
    assert found == alone(tables, QUERIES["join"][1])


def test_workers_that_are_killed_lose_no_row_and_none_comes_twice(place: Place, engine: weft.Engine) -> None:
    tables: dict[str, list[pa.Table]] = {}
    second = 0
    while _Killer.hits < 3:  # an attempt that ends before its workers are found was not hit
        _put(place, tables, second)
        _Killer.kills = (True, True)
        steps(engine)
        second += 6
        assert second < 200, "no batch is hit"
    _put(place, tables, second + 20)
    _Killer.kills = ()
    steps(engine)
    _check(place, tables)


def test_a_batch_that_is_hit_at_every_attempt_is_run_later_and_blames_nobody(place: Place, engine: weft.Engine) -> None:
    tables: dict[str, list[pa.Table]] = {}
    _put(place, tables, 0)
    steps(engine)
    _put(place, tables, 6)
    _Killer.kills = (True,) * 100
    with pytest.raises(WeftError) as failed:
        steps(engine)
    assert failed.value.code == "worker_lost"
    assert _Killer.hits >= 3
    _Killer.kills = ()
    _put(place, tables, 30)
    steps(engine)
    _check(place, tables)
