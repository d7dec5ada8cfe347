"""The driver is killed at random moments, again and again: no row is lost and none comes twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import weft
from tests.spark.crash_child import WISHES, files_read
from tests.spark.support import Place, at, is_multiset, put, rows, within
from weft.plan.changelog import QueryRecord
from weft.storage.packs import PACKS, find_packed

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
FILES = 20
KILLS = 10
KINDS = ("driver", "driver and Java", "driver while Java is frozen", "Java")


def _files(root: Path, random: Random) -> dict[str, pa.Table]:
    """Files of each stream, one for a batch: a second of rows, somewhat out of order; with the number of the file."""
    tables: dict[str, list[pa.Table]] = {"a": [], "b": []}
    for number in range(FILES):
        for name, parts in tables.items():
            count = random.randrange(20, 60)
            table = pa.table(
                {
                    "ts": pa.array(
                        [at(number + random.uniform(-0.9, 1)) for _ in range(count)], pa.timestamp("us", "UTC")
                    ),
                    "k": [random.choice((None, *range(8))) for _ in range(count)],
                    "v": [random.randrange(1000) for _ in range(count)],
                    "name": [f"n{random.randrange(20)}" for _ in range(count)],
                }
            )
            put(root / name, table, f"{number:04d}.parquet")
            parts.append(table.append_column("file", pa.array([number] * count)))
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}


@dataclass(slots=True)
class Child:
    """A run of crash_child and what it has said."""

    root: Path
    said: list[list[str]] = field(default_factory=list)
    process: Any = None
    java: int = 0
    _reader: Thread | None = None

    def start(self) -> Child:
        """Start it; what it writes to stderr is kept for the report of a failure."""
        with open(self.root / "stderr.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.crash_child", str(self.root), str(FILES)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": "src", "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self) -> None:
        with self.process.stdout as lines:
            for line in lines:
                self.said.append(line.split())
                if line.startswith("java "):
                    self.java = int(line.split()[1])

    def heard(self, *words: str) -> list[list[str]]:
        """The lines that begin with these words."""
        return [line for line in self.said if line[: len(words)] == list(words)]

    def wait_for(self, word: str, seconds: float = 120) -> bool:
        """Wait until it says something; False if it ends before."""
        deadline = time.monotonic() + seconds
        while not self.heard(word):
            assert time.monotonic() < deadline, f"no {word!r} after {seconds} s\n{self.log()}"
            if self.process.poll() is not None:
                return bool(self.heard(word))
            time.sleep(0.005)
        return True

    def wait_for_commit(self) -> None:
        """Wait until it has committed a batch, or ends."""
        while len(self.heard("batch")) < 2 and self.process.poll() is None:
            time.sleep(0.005)

    def kill(self, kind: str) -> None:
        """Kill it, or its Java process, or both."""
        if kind != "Java" or not self.java:
            self.process.kill()
        if kind != "driver" and self.java:
            with suppress(ProcessLookupError):
                os.kill(self.java, signal.SIGSTOP if kind == "driver while Java is frozen" else signal.SIGKILL)
        self.end(120)

    def thaw(self) -> None:
        """Let a frozen Java process go on, and so end."""
        with suppress(ProcessLookupError):
            os.kill(self.java, signal.SIGCONT)

    def end(self, seconds: float) -> int:
        """Wait for its end; returns its exit code."""
        try:
            code: int = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end\n{self.stacks()}") from None
        assert self._reader is not None
        self._reader.join(1)  # a frozen Java process holds the other end of the pipe
        return code

    def stacks(self) -> str:
        """What it said last and what its threads do, of Python and of Java; it does not survive being asked."""
        self.process.send_signal(signal.SIGUSR1)
        with suppress(ProcessLookupError):
            os.kill(self.java, signal.SIGQUIT)
        time.sleep(5)
        self.process.kill()
        said = "\n".join(" ".join(line) for line in self.said[-1500:])
        return f"{said}\n{self.log()}"

    def log(self) -> str:
        """The end of what was written to stderr."""
        return (self.root / "stderr.log").read_text(errors="replace")[-20_000:]


def test_killed_again_and_again(place: Place) -> None:
    seed = int(os.environ.get("WEFT_CRASH_SEED", time.time_ns() % 1_000_000))
    print(f"play it again: WEFT_CRASH_SEED={seed}")
    random = Random(seed)
    tables = _files(place.root, random)
    asked: set[str] = set()
    frozen: Child | None = None
    committed = 0
    began = time.monotonic()
    for number in range(KILLS):
        child = Child(place.root).start()
        if frozen is not None:
            _check_that_it_waits(child, frozen)
        kind = KINDS[number % len(KINDS)]
        if number and random.random() < 0.5:  # else it is killed while it starts
            child.wait_for_commit()
        time.sleep(random.uniform(0, 2))
        child.kill(kind)
        frozen = child if kind == "driver while Java is frozen" and child.java else None
        for line in child.heard("opened"):
            assert int(line[1]) >= committed, "committed batches are gone"
            assert asked <= set(line[2:]), "queries are gone"
            asked = set(line[2:])
        committed = max([committed, *(int(line[1]) for line in child.heard("batch"))])
        print(f"  {time.monotonic() - began:.1f} s: {kind} killed, {committed} batches committed")
    child = Child(place.root).start()
    assert child.end(240) == 0, child.log()
    assert child.heard("done")
    _check_all(place, tables)


def _check_that_it_waits(child: Child, frozen: Child) -> None:
    """While the Java process of a dead driver is there, the next engine does not begin; after its end it does."""
    child.wait_for("java")
    time.sleep(1)
    if _is_there(frozen.java):  # it may have been faster than the signal
        assert not child.heard("opened")
    frozen.thaw()
    child.wait_for("opened")


def _is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _check_all(place: Place, tables: dict[str, pa.Table]) -> None:
    with duckdb.connect(config={"threads": 1}) as database:
        engine = place.engine(partitions=3)
        read = files_read(engine)
        for name, table in tables.items():
            batches = [read[name][f"{number:04d}.parquet"] for number in range(FILES)]
            database.register(name, table.append_column("batch", pc.take(pa.array(batches), table["file"])))
        for wish in WISHES:
            query = engine.query(wish.name)
            record = engine.core.roster.records[query.id]
            assert query.state == ("dropped" if wish.drop is not None else "live")
            assert len([r for r in engine.core.roster.records.values() if r.name == wish.name]) == 1
            expected = database.execute(_alone(wish.name, record)).fetchall()
            assert expected, f"{wish.name} has no rows: the test says nothing"
            assert is_multiset(rows(query), expected) == "", f"{wish.name}, batches {record.created} to {record.ended}"
            if wish.sink:
                found = pa.parquet.read_table(place.root / "out" / wish.name).to_pylist()
                assert is_multiset([tuple(row.values()) for row in found], expected) == "", f"sink of {wish.name}"
        _check_disk(engine, place)


def _alone(name: str, record: QueryRecord) -> str:
    """A query in DuckDB's SQL over the rows of the batches it lived in."""
    life = f"batch >= {record.created}"
    life += "" if record.ended is None else f" AND batch < {record.ended}"
    life += "" if record.start is None else f" AND epoch_us(ts) >= {record.start}"
    x, y, z = (
        f"(SELECT * FROM a WHERE {life}) x",
        f"(SELECT * FROM b WHERE {life}) y",
        f"(SELECT * FROM a WHERE {life}) y",
    )
    pairs = "SELECT x.v, y.v AS w FROM {} JOIN {} ON x.k = y.k"
    bucket = "epoch_us({}.ts) // 4000000 * 4000000"
    start = record.start or 0
    ended = "(SELECT min(newest) FROM (SELECT max(epoch_us(ts)) - 2000000 AS newest FROM {}))"
    both = "(SELECT ts, 0 AS s FROM a UNION ALL SELECT ts, 1 FROM b)"
    per_stream = f"(SELECT min(newest) FROM (SELECT max(epoch_us(ts)) - 2000000 AS newest FROM {both} GROUP BY s))"
    gap = 400_000
    return {
        "sums": "SELECT name, make_timestamptz(w), count(*), sum(v)::BIGINT FROM (SELECT *, unnest(generate_series("
        "(epoch_us(ts) // 1000000 - 2) * 1000000, epoch_us(ts) // 1000000 * 1000000, 1000000)) AS w "
        f"FROM {x} WHERE v > 100) WHERE w >= {start} AND w + 3000000 <= {ended.format('a')} GROUP BY ALL",
        "joined_sums": f"SELECT x.name, make_timestamptz({bucket.format('x')}) AS w, count(*), sum(x.v)::BIGINT "
        f"FROM {x} JOIN {y} ON x.k = y.k AND {bucket.format('x')} = {bucket.format('y')} "
        f"WHERE {bucket.format('x')} >= {start} AND {bucket.format('x')} + 4000000 <= {per_stream} GROUP BY ALL",
        "sessions": "SELECT k, make_timestamptz(min(t)), make_timestamptz(max(t) + 400000), count(*) FROM "
        "(SELECT k, t, sum(new) OVER (PARTITION BY k ORDER BY t) AS s FROM (SELECT k, epoch_us(ts) AS t, "
        f"CASE WHEN t - lag(t) OVER (PARTITION BY k ORDER BY t) < {gap} THEN 0 ELSE 1 END AS new FROM {y})) "
        f"GROUP BY k, s HAVING max(t) + {gap} <= {ended.format('b')}",
        "join": f"{pairs.format(x, y)} AND {within('x', 'y', 3)} WHERE x.v > 100",
        "select": f"SELECT ts, v FROM {x} WHERE v < 500",
        "self": f"{pairs.format(x, z)} AND {within('x', 'y', 2)}",
        "tumble": f"SELECT x.v, y.v AS w, make_timestamptz({bucket.format('x')}) FROM {x} JOIN {y} ON x.name = y.name "
        f"AND {bucket.format('x')} = {bucket.format('y')} WHERE {bucket.format('x')} >= {start}",
        "leaves": f"{pairs.format(x, y)} AND {within('x', 'y', 1)}",
        "comes": f"{pairs.format(x, y)} AND {within('x', 'y', 4)} WHERE y.v < 800",
        "passes": pairs.format(x, y),
        "opaque": f"SELECT v FROM {y} WHERE upper(name) LIKE 'N1%'",
    }[name]


def _check_disk(engine: weft.Engine, place: Place) -> None:
    """What is needed is there, in its own place or in a pack, and files that no batch owns are gone."""
    inventory = engine.core.inventory
    needed = {path for manifest in inventory.results for path in manifest.result_files()} | set(inventory.buckets)
    there = set(place.data_files())
    assert [path for path in needed - there if find_packed(place.state / PACKS, path) is None] == []
    assert there <= needed | set(inventory.freed)
