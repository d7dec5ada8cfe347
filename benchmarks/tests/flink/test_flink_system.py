"""The program for Flink against a real Flink, which is installed on demand: its results are those of DuckDB."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft_bench.data import Load, rows_between
from weft_bench.driver.messages import (
    Answer,
    Create,
    Delivered,
    Drop,
    Figures,
    Gone,
    Live,
    Message,
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
from weft_bench.systems.flink import prepare

Kind = TypeVar("Kind")
PATIENCE = 240.0
FILES, ROWS = 24, 2_000
START = 1_704_067_200_000_000
SPAN = 250_000
COLUMNS = {"ts": "timestamp", "k": "bigint"} | {f"f{number}": "int" for number in range(5)}
JOIN = (
    "SELECT a.ts AS a_ts, b.ts AS b_ts, a.k AS k, a.f0 AS a_f0, b.f0 AS b_f0 FROM A a JOIN B b ON a.k = b.k"
    " AND b.ts > a.ts - INTERVAL '2' SECOND AND b.ts < a.ts + INTERVAL '2' SECOND WHERE a.f1 > 250 AND b.f2 < 100"
)
HOP = (
    "SELECT k, window_start, COUNT(*) AS n, SUM(f1) AS total, MAX(ts) AS newest FROM"
    " TABLE(HOP(TABLE A, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECONDS)) WHERE f1 > 250"
    " GROUP BY k, window_start, window_end"
)
IN_MILLISECONDS = """
    CREATE VIEW {name} AS SELECT * REPLACE (date_trunc('milliseconds', ts) AS ts) FROM read_parquet({files})
"""


@dataclass
class Flink:
    """The program, and all it has said."""

    child: subprocess.Popen[str]
    feed: Path
    said: list[Answer] = field(default_factory=list)
    incoming: queue.Queue[Message | None] = field(default_factory=queue.Queue)

    def say(self, message: Message) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(to_line(message) + "\n")
        self.child.stdin.flush()

    def listen(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            message = from_line(line.rstrip("\n"))
            if message is not None:
                self.incoming.put(message)
        self.incoming.put(None)

    def until(self, kind: type[Kind]) -> Kind:
        """Wait for the next message of a kind."""
        while True:
            message = self.incoming.get(timeout=PATIENCE)
            assert message is not None, f"the program has ended; it said {self.said[-3:]}"
            self.said.append(message)  # type: ignore[arg-type]
            if isinstance(message, kind):
                return message

    def delivered(self, query: str) -> Counter[int]:
        """Rows so far by event time."""
        found: Counter[int] = Counter()
        for message in self.said:
            if isinstance(message, Delivered) and message.query == query:
                for moment, rows in message.newest:
                    found[moment] += round(rows)
        return found


def order(folder: Path) -> Order:
    streams = tuple(StreamOrder(name, str(folder / "feed" / name), COLUMNS) for name in "AB")
    for stream in streams:
        Path(stream.folder).mkdir(parents=True)
    (folder / "scratch").mkdir()
    settings = {"mode": "set", "sample": "1"}
    return Order(streams, str(folder / "scratch"), interval=0.25, cores=2, heap_gigabytes=1, settings=settings)


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    folder, home = tmp_path_factory.mktemp("flink"), prepare()
    given = order(folder)
    child = subprocess.Popen(
        home.command(),
        env=home.environment(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    with child:
        made = Flink(child, folder / "feed")
        threading.Thread(target=made.listen, daemon=True).start()
        made.say(given)
        made.until(Ready)
        yield made
        made.say(Stop())
        assert child.wait(PATIENCE) == 0


def release(feed: Path) -> None:
    """All files at once, in no order: the system has to find the right one."""
    numbers = np.random.default_rng(7).permutation(FILES)
    for place, name in enumerate("AB"):
        for number in numbers:
            begin = START + int(number) * SPAN
            table = rows_between(np.random.default_rng((place, number)), Load(ROWS, 300), begin, begin + SPAN)
            pq.write_table(table, feed / f"{name}.{number}", compression="none", use_dictionary=False)
            (feed / f"{name}.{number}").rename(feed / name / f"{number:08d}.parquet")


def release_end(feed: Path) -> None:
    """Rows an hour later that join with nothing, so that all windows end; one file for every reader, and more."""
    for number in range(FILES, FILES + 6):
        for name, key in (("A", -1), ("B", -2)):
            columns = {
                "ts": pa.array([START + 3_600_000_000 + number], pa.timestamp("us", "UTC")),
                "k": pa.array([key]),
            }
            columns |= {f"f{place}": pa.array([0], pa.int32()) for place in range(5)}
            pq.write_table(pa.table(columns), feed / f"{name}.{number}")
            (feed / f"{name}.{number}").rename(feed / name / f"{number:08d}.parquet")


@pytest.fixture(scope="module")
def answered(flink: Flink) -> Figures:
    """After both queries have seen all rows."""
    queries = (
        QueryOrder("join", JOIN, observed=True, newest=("a_ts", "b_ts")),
        QueryOrder("hop", HOP, observed=True, newest=("newest",)),
    )
    release(flink.feed)
    flink.say(Create(queries))
    assert set(flink.until(Live).names) == {"join", "hop"}
    release_end(flink.feed)
    while flink.until(Pulled).files != {"A": FILES + 6, "B": FILES + 6}:
        pass
    expected = {name: expectation(flink.feed, name).total() for name in ("join", "hop")}
    while any(flink.delivered(name).total() < rows for name, rows in expected.items()):
        flink.until(Delivered)
    flink.say(Report())
    return flink.until(Figures)


def expectation(feed: Path, query: str) -> Counter[int]:
    """Rows by event time as DuckDB has them, over the same files with times in milliseconds."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name in "AB":
            files = [str(feed / name / f"{number:08d}.parquet") for number in range(FILES)]
            database.execute(IN_MILLISECONDS.format(name=name, files=files))
        if query == "join":
            text = f"SELECT epoch_ms(greatest(a_ts, b_ts)) FROM ({JOIN})"
        else:
            text = """
                SELECT epoch_ms(max(ts)) FROM
                (SELECT *, unnest(range(0, 5)) AS back FROM A WHERE f1 > 250)
                GROUP BY k, floor(epoch(ts)) - back
            """
        return Counter(int(moment) // 10 * 10_000 for (moment,) in database.execute(text).fetchall())


@pytest.mark.parametrize("query", ["join", "hop"])
def test_results_are_those_of_duckdb(flink: Flink, answered: Figures, query: str) -> None:
    assert flink.delivered(query) == expectation(flink.feed, query)


def test_figures(flink: Flink, answered: Figures) -> None:
    rows = sum(expectation(flink.feed, name).total() for name in ("join", "hop"))
    assert answered.result_rows == rows
    assert answered.bytes_shuffled is not None
    assert answered.bytes_shuffled > 0
    assert answered.state_bytes is not None
    assert answered.state_bytes > 0


def test_files_are_passed_in_order(flink: Flink, answered: Figures) -> None:
    pulled = [message for message in flink.said if isinstance(message, Pulled)]
    assert {message.reader for message in pulled} == {"set 1"}
    for stream in "AB":
        counts = [message.files[stream] for message in pulled]
        assert counts == sorted(counts)
    assert all(message.began <= message.at for message in pulled)


def test_a_query_that_is_none_is_refused(flink: Flink, answered: Figures) -> None:
    flink.say(Create((QueryOrder("bad", "SELECT nothing_such FROM A"),)))
    refused = flink.until(Refused)
    assert refused.names == ("bad",)
    assert "nothing_such" in refused.error


def test_queries_of_a_set_go_together(flink: Flink, answered: Figures) -> None:
    flink.say(Drop(("join",)))
    assert "others" in flink.until(Refused).error
    flink.say(Drop(("join", "hop")))
    assert set(flink.until(Gone).names) == {"join", "hop"}


def test_a_later_job_begins_with_what_comes(flink: Flink, answered: Figures) -> None:
    flink.say(Create((QueryOrder("later", "SELECT k FROM A"),)))
    assert flink.until(Live).names == ("later",)
    pulled = flink.until(Pulled)
    assert pulled.reader == "later"
    assert pulled.files == {"A": FILES + 6, "B": FILES + 6}
    flink.say(Drop(("unknown",)))
    assert flink.until(Refused).error == "no such query: unknown"
