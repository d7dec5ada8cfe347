"""The programs of weft and of plain Spark, each with a Spark of its own, speak with a driver over small data."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import duckdb
import psutil
import pytest

from tests.meta.project import ROOT
from weft_bench.data import START
from weft_bench.driver.messages import (
    Answer,
    Command,
    Create,
    Delivered,
    Drop,
    Figures,
    Gone,
    Live,
    Order,
    Pulled,
    QueryOrder,
    Ready,
    Refused,
    Report,
    Stop,
    StreamOrder,
    from_line,
    to_line,
)
from weft_bench.experiments import Options, Program
from weft_bench.systems.by_hand import share_by_hand
from weft_bench.systems.limit_files import write_files
from weft_bench.systems.registry import CONTENDERS
from weft_bench.workloads.aggregation import aggregation
from weft_bench.workloads.joins import sc1
from weft_bench.workloads.model import Dialect, Workload
from weft_bench.workloads.say import QueryList

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECONDS = 8
COUNT = 3
PATIENCE = 240.0
HEAP = 1
LAST = int(START.timestamp() + SECONDS - 1) * 1_000_000
"""When the last file begins, in event time."""
A = TypeVar("A", bound=Answer)


class Driver:
    """Talks with a system's program and remembers all it said."""

    def __init__(self, name: str, folder: Path) -> None:
        program = CONTENDERS[name](Options())
        assert isinstance(program, Program)
        self.folder, self.program = folder, program
        self.heard: list[Answer] = []
        self._changed = threading.Condition()
        self._log = (folder / "stderr").open("wb")
        self.process = subprocess.Popen(
            program.command,
            env=os.environ | program.environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = from_line(line)
            assert answer is not None, f"noise on the line: {line}"
            with self._changed:
                self.heard.append(answer)  # type: ignore[arg-type]
                self._changed.notify_all()

    def say(self, command: Command) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(to_line(command) + "\n")
        self.process.stdin.flush()

    def order(self, workload: Workload, settings: Mapping[str, str]) -> None:
        streams = tuple(
            StreamOrder(each.name, str(self.folder / "feed" / each.name), each.columns) for each in workload.streams
        )
        for each in streams:
            Path(each.folder).mkdir(parents=True)
        self.say(
            Order(streams, str(self.folder / "scratch"), 0.0, 2, HEAP, settings={**self.program.settings, **settings})
        )

    def wait(self, kind: type[A], meant: Callable[[A], bool] = lambda answer: True) -> A:
        """The first such answer, which may have been given already."""

        def found() -> A | None:
            return next((each for each in self.heard if isinstance(each, kind) and meant(each)), None)

        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while (answer := found()) is None:
                assert self.process.poll() is None, self.log()
                assert time.monotonic() < deadline, f"no {kind.__name__} among {self.heard}\n{self.log()}"
                self._changed.wait(1.0)
        return answer

    def log(self) -> str:
        return (self.folder / "stderr").read_text(encoding="utf-8", errors="replace")[-4000:]

    def release(self, seconds: range, workload: Workload) -> None:
        """Let files appear, one of each stream after the other."""
        for second in seconds:
            for stream in workload.streams:
                name = f"{stream.name}/{second:08d}.parquet"
                os.utime(self.folder / "rows" / name)
                (self.folder / "rows" / name).rename(self.folder / "feed" / name)

    def heap(self) -> str:
        """What the system's Java process was told."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        [java] = [process for process in children if process.name() == "java"]
        return next(word for word in java.cmdline() if word.startswith("-Xmx"))

    def passed(self, reader: str, files: int) -> Pulled:
        return self.wait(Pulled, lambda each: each.reader == reader and min(each.files.values()) == files)

    def delivered(self, query: str) -> list[tuple[int, float]]:
        return [
            pair
            for each in list(self.heard)
            if isinstance(each, Delivered) and each.query == query
            for pair in each.newest
        ]

    def stop(self) -> int:
        self.say(Stop())
        status = self.process.wait(PATIENCE)
        self._thread.join()
        return status

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self._log):
            assert pipe is not None
            pipe.close()


@contextmanager
def driving(name: str, folder: Path) -> Iterator[Driver]:
    driver = Driver(name, folder)
    try:
        yield driver
    finally:
        driver.close()


def expected(workload: Workload, number: int, folder: Path) -> dict[int, float]:
    """Rows of a query by the event time of each, to ten milliseconds, as DuckDB alone finds them."""
    spec = workload.queries(number + 1)[number]
    newest = f"greatest({', '.join(spec.newest)})" if len(spec.newest) > 1 else spec.newest[0]
    with duckdb.connect() as connection:
        for stream in workload.streams:
            files = f"read_parquet('{folder}/{stream.name}/*.parquet')"
            connection.execute(f"CREATE VIEW {stream.name} AS SELECT * FROM {files}")
        found = connection.execute(
            f"SELECT epoch_us({newest}) // 10000 * 10000, count(*) FROM ({spec.texts[Dialect.DUCKDB]}) GROUP BY ALL"
        ).fetchall()
    return {int(moment): float(count) for moment, count in found}


def summed(pairs: list[tuple[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    for moment, count in pairs:
        total[moment] = total.get(moment, 0.0) + count
    return total


def texts(workload: Workload, name: str) -> tuple[list[str], dict[str, str]]:
    """The queries in the words of a system, and the settings that go with them."""
    assert isinstance(workload.queries, QueryList)
    if name == "spark-shared":
        shared = share_by_hand([workload.queries.shape(number) for number in range(COUNT)])
        return list(shared.queries), {"shared_text": shared.text}
    dialect = Dialect.WEFT if name == "weft" else Dialect.SPARK
    return [spec.texts[dialect] for spec in workload.queries(COUNT)], {}


@pytest.mark.parametrize("name", ["weft", "spark", "spark-shared"])
def test_a_system_does_what_a_driver_asks(name: str, tmp_path: Path) -> None:
    workload = sc1(keys=300, rate=1_500)
    write_files(workload, tmp_path / "rows", seconds=SECONDS)
    said, settings = texts(workload, name)
    newest = workload.queries(1)[0].newest
    readers = {"weft": ["weft"], "spark": ["q0", "q1", "q2"], "spark-shared": ["shared"]}[name]
    with driving(name, tmp_path) as driver:
        driver.order(workload, settings)
        driver.wait(Ready)
        assert driver.heap() == f"-Xmx{HEAP}g"
        queries = [QueryOrder(f"q{n}", text, observed=n < 2, newest=newest) for n, text in enumerate(said)]
        driver.say(Create((queries[0], queries[1])))
        driver.say(Create((QueryOrder("wrong", "SELECT nothing FROM nowhere"),)))
        driver.say(Create((queries[2],)))
        for query in queries:
            live = driver.wait(Live, lambda each, query=query: query.name in each.names)
            assert live.at <= time.time()
        assert driver.wait(Refused).names == ("wrong",)
        begin = time.time()
        for second in range(SECONDS - 1):
            driver.release(range(second, second + 1), workload)
            if second == 1:
                driver.passed(readers[0], 2)  # a first batch for sure, and then others
        for reader in readers:
            pulled = driver.passed(reader, SECONDS - 1)
            assert begin <= pulled.began <= pulled.at <= time.time()
        driver.say(Drop(("q1",)))
        assert driver.wait(Gone).names == ("q1",)
        driver.release(range(SECONDS - 1, SECONDS), workload)
        for reader in readers:
            if reader != "q1":
                driver.passed(reader, SECONDS)
        driver.say(Report())
        figures = driver.wait(Figures)
        assert figures.bytes_shuffled is not None
        assert figures.bytes_shuffled > 0
        assert figures.state_bytes is not None
        assert figures.state_bytes > 0
        assert driver.stop() == 0, driver.log()
        assert summed(driver.delivered("q0")) == expected(workload, 0, tmp_path / "feed")
        dropped = summed(driver.delivered("q1"))
        assert dropped.items() <= expected(workload, 1, tmp_path / "feed").items()
        assert max(dropped) < LAST  # nothing of what came after it was gone
        assert driver.delivered("q2") == []


@pytest.mark.parametrize("name", ["weft", "spark"])
def test_windows_are_delivered_when_they_have_ended(name: str, tmp_path: Path) -> None:
    workload = aggregation(keys=30, rate=600, longest=2)
    write_files(workload, tmp_path / "rows", seconds=SECONDS)
    said, _ = texts(workload, name)
    with driving(name, tmp_path) as driver:
        driver.order(workload, {})
        driver.say(Create((QueryOrder("q0", said[0], observed=True, newest=workload.queries(1)[0].newest),)))
        driver.wait(Live)
        reader = "weft" if name == "weft" else "q0"
        for files in (4, SECONDS - 1, SECONDS):  # a batch each, and each ends the windows of the one before
            driver.release(range(files - {4: 4, 7: 3, 8: 1}[files], files), workload)
            driver.passed(reader, files)
        assert driver.stop() == 0, driver.log()
    found, complete = summed(driver.delivered("q0")), expected(workload, 0, tmp_path / "feed")
    assert found
    assert all(count <= complete[moment] for moment, count in found.items())
    early = START.timestamp() * 1_000_000 + 3_000_000
    assert {moment: count for moment, count in found.items() if moment < early} == {
        moment: count for moment, count in complete.items() if moment < early
    }
