"""A run without Spark: what it learns from batches, what it forgets, what it says, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from examples.ads.generate import SCHEMAS
from examples.ads.run import Demo, stop_on_signals
from weft.errors import EngineStopped


class FakeEngine:
    """An engine that has committed batches, with files of both streams, and has one record for every query."""

    def __init__(self) -> None:
        self.running = True
        self.catalog = self
        self.manifests: list[Any] = []
        self.summaries: list[Any] = []
        self.record: Any = None
        self.dropped: list[str] = []

    def commit(self, files: str, *, rows: int, at: float) -> None:
        """Commit a batch that has read one file of each stream."""
        streams = tuple((stream, SimpleNamespace(rows=rows)) for stream in SCHEMAS)
        named = tuple((stream, (files,)) for stream in SCHEMAS)
        batch = len(self.manifests)
        self.manifests.append(SimpleNamespace(batch=batch, streams=streams, files=named))
        seconds = {"compile": 0.25, "run": 0.5 + batch, "commit": 0.25, "tag": 9.0}
        self.summaries.append(SimpleNamespace(batch=batch, at=at, seconds=seconds))

    def commits_from(self, first: int) -> Any:
        return SimpleNamespace(manifests=self.manifests[first:], lease=nullcontext())

    def create_many(self, queries: list[tuple[str, str]]) -> list[Any]:
        return [FakeQuery(self, name) for name, _ in queries]

    def wait(self) -> bool:
        return True


class FakeQuery:
    def __init__(self, engine: FakeEngine, name: str) -> None:
        self._engine, self._name = engine, name

    @property
    def record(self) -> Any:
        return self._engine.record

    def drop(self) -> None:
        self._engine.dropped.append(self._name)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def demo(engine: FakeEngine, tmp_path: Path) -> Demo:
    made = Demo(engine, tmp_path / "in", Namespace(seconds=None, rate=100, queries=2, seed=1))  # type: ignore[arg-type]
    made._come_and_go(0.0)
    return made


def test_rows_are_counted_once_and_for_each_query_alone(engine: FakeEngine, demo: Demo) -> None:
    engine.record = SimpleNamespace(created=1, ended=2, start=None)
    for number in range(3):
        engine.commit(f"{number}.parquet", rows=10, at=time.time())
    demo._look()
    assert demo._rows == dict.fromkeys(SCHEMAS, 30)
    streams = sum(len(asked.query.streams) for asked in demo._asked)
    assert streams > 0
    assert demo._rows_alone == 10 * streams, "of batch 1 only"
    demo._look()
    assert demo._rows_alone == 10 * streams, "no batch counts twice"
    for stream in SCHEMAS:
        assert {path.name: batch for path, batch in demo._batch_of[stream].items()} == {
            "0.parquet": 0,
            "1.parquet": 1,
            "2.parquet": 2,
        }


def test_only_queries_that_were_live_leave(engine: FakeEngine, demo: Demo) -> None:
    demo._come_and_go(3_600.0)
    assert engine.dropped == [], "they are pending"
    engine.record = SimpleNamespace(created=0, ended=None, start=None)
    demo._look()
    demo._come_and_go(3_600.0)
    assert len(engine.dropped) == 2
    assert demo._crowd.made == 2
    engine.record = SimpleNamespace(created=0, ended=0, start=None)
    demo._look()
    demo._come_and_go(0.0)
    assert demo._crowd.made == 4, "others take their place"


def test_old_files_and_queries_go(engine: FakeEngine, demo: Demo) -> None:
    engine.record = SimpleNamespace(created=0, ended=2, start=None)
    for number, age in enumerate((1_000, 700, 500, 0)):
        for stream in SCHEMAS:
            (demo._generator.folder / stream / f"{number}.parquet").touch()
        engine.commit(f"{number}.parquet", rows=1, at=time.time() - age)
    demo._look()
    assert len(demo._asked) == 2
    demo._forget()
    assert demo._asked == []
    assert demo._complete_from > 2
    for stream in SCHEMAS:
        kept = sorted((demo._generator.folder / stream).iterdir())
        assert [path.name for path in kept] == ["2.parquet", "3.parquet"]
        assert sorted(demo._batch_of[stream]) == kept


def test_a_live_query_is_never_forgotten(engine: FakeEngine, demo: Demo) -> None:
    engine.record = SimpleNamespace(created=0, ended=None, start=None)
    engine.commit("0.parquet", rows=1, at=time.time() - 1_000)
    engine.commit("1.parquet", rows=1, at=time.time())
    demo._look()
    demo._forget()
    assert len(demo._asked) == 2


def test_the_summary_has_the_figures(engine: FakeEngine, demo: Demo) -> None:
    engine.record = SimpleNamespace(created=0, ended=None, start=None)
    for number in range(4):
        engine.commit(f"{number}.parquet", rows=1_000, at=time.time())
    demo._look()
    demo._seconds = 32.4
    alone = 4_000 * sum(len(asked.query.streams) for asked in demo._asked)
    assert demo.summary().splitlines() == [
        "weft demo: 32 s, 4 batches",
        f"  rows read      8,000; {alone:,} if each query ran alone, {alone / 8_000:.1f} × as many",
        "  queries        2 came, 0 left, 2 live at the end",
        "  batch latency  3.00 s, at most 4.00 s",
    ]


def test_an_engine_that_has_ended_is_an_error(engine: FakeEngine, demo: Demo) -> None:
    engine.running = False
    with pytest.raises(EngineStopped):
        demo._look()


@pytest.fixture
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals_as_before")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_the_second_interrupts(number: signal.Signals) -> None:
    stop = stop_on_signals()
    assert not stop.wait(0)
    os.kill(os.getpid(), number)
    assert stop.wait(5)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
