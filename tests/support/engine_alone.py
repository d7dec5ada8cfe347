"""An engine without Spark, for tests of sinks and of who reads what: all but the running of batches is real."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet

from tests.support.engine_sample import rows, run_batch, stream
from weft.engine.catalog import Catalog
from weft.engine.core import Core
from weft.engine.query import Query
from weft.engine.results.retention import Keep, Retention, keep
from weft.engine.sinks.sinks import Sink
from weft.sql import bind
from weft.storage.directory import Directory


class Received:
    """A callback that remembers what it was given, and fails when told."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[Any]]] = []
        self.fails = False

    def __call__(self, found: Sequence[Any], batch: int) -> None:
        if self.fails:
            raise RuntimeError("the other side is down")
        self.batches.append((batch, [tuple(row) for row in found]))


class Alone(Catalog):
    """A catalog with sinks that run, and batches that the test runs."""

    def __init__(self, path: Path, kept: Keep, clock: Callable[[], float]) -> None:
        with ExitStack() as undo:
            directory = Directory.open(path)
            undo.callback(directory.close)
            super().__init__(Core(directory))
            for name in "ab":
                self.add_stream(stream(name))
            self.retention = Retention(self.core, self.deliveries, kept, clock=clock)
            self.deliveries.restore()
            undo.pop_all()

    def create_one(self, sql: str, *, sink: Sink | None = None, name: str | None = None) -> Query:
        return self.create([(name, bind(sql, self.core.streams))], sink=lambda _: sink)[0]

    def batch(self, second: int, *values: int, stream: str = "a") -> None:
        self.retention.after(run_batch(self.core, {stream: [rows(*((second, 1, value) for value in values))]}))

    def stop(self) -> None:
        self.deliveries.stop()
        self.retention.save()
        self.core.directory.close()


class Opened:
    """Such an engine, which can be started again on the same path."""

    def __init__(self, path: Path, kept: Keep | None = None) -> None:
        self._path = path
        self.kept = kept or keep()
        self.now = 0.0
        """What its clock says."""
        self.open()

    def open(self) -> None:
        self.engine = Alone(self._path / "state", self.kept, lambda: self.now)
        self.batch = self.engine.batch

    def restart(self) -> None:
        self.engine.stop()
        self.open()

    def crash(self) -> None:
        """Start again without delivering anything more."""
        for each in self.engine.deliveries._running.values():
            each._deliver = lambda: True  # type: ignore[method-assign]
        self.restart()


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        threading.Event().wait(0.01)


def files_of(folder: Path) -> dict[str, list[int]]:
    return {path.name: pyarrow.parquet.read_table(path)["x"].to_pylist() for path in sorted(folder.glob("*.parquet"))}


def part(batch: int) -> str:
    return f"part-{batch:012d}.parquet"
