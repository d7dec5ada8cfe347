"""The judge: agrees with nested loops over the contract, and notices every difference."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.ads.check import Judge, Life, Verdict, conclusion
from examples.ads.generate import LATENESS_SECONDS, SCHEMAS, Generator
from examples.ads.workload import Crowd, DemoQuery
from tests.support.harness import CoreHarness
from weft.plan.stream import FrameSource, Stream
from weft.sql import parse_schema

Arrivals = dict[str, dict[Path, int]]
"""The batch of each file, by stream."""

START = 1_700_000_000.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
BATCHES, TICKS_PER_BATCH = 6, 2
LATENESS = timedelta(seconds=LATENESS_SECONDS)
STREAMS = [Stream(n, parse_schema(s), "ts", LATENESS, None, FrameSource()) for n, s in SCHEMAS.items()]


def generated(folder: Path, rate: int) -> Arrivals:
    generator = Generator(folder, rate=rate, seed=2, start=START)
    for tick in range(BATCHES * TICKS_PER_BATCH):
        generator.write(START + tick * 0.5 + 0.5)
    return {
        stream: {path: number // TICKS_PER_BATCH for number, path in enumerate(sorted((folder / stream).iterdir()))}
        for stream in SCHEMAS
    }


@pytest.fixture(scope="module")
def arrivals(tmp_path_factory: pytest.TempPathFactory) -> Arrivals:
    return generated(tmp_path_factory.mktemp("small") / "in", 150)


@pytest.fixture(scope="module")
def judge(arrivals: Arrivals) -> Judge:
    return Judge(arrivals)


def queries(count: int) -> list[DemoQuery]:
    return Crowd(3, most=count, seconds=60).arrivals(0, 60)


def empty_table(query: DemoQuery) -> pa.Table:
    return pa.table({f"c{n}": pa.nulls(0) for n in range(len(query.outputs.split(", ")))})


def alone(judge: Judge, query: DemoQuery, life: Life) -> pa.Table:
    """What the judge expects: compared with nothing, all of it is missing."""
    judge.compare(query, life, empty_table(query))
    return judge._database.sql("FROM alone").to_arrow_table()


def files_of(arrivals: Arrivals, stream: str, batch: int) -> list[Path]:
    return [path for path, read_in in arrivals[stream].items() if read_in == batch]


def rows_seen(arrivals: Arrivals, stream: str, life: Life) -> list[dict[str, Any]]:
    """Rows a query may use, by the contract, with their event time in microseconds."""
    seen, top = [], None
    for batch in range(BATCHES):
        rows = [row for path in files_of(arrivals, stream, batch) for row in pq.read_table(path).to_pylist()]
        times = [(row["ts"] - EPOCH) // MICROSECOND for row in rows]
        for row, time in zip(rows, times, strict=True):
            on_time = top is None or time >= top - LATENESS // MICROSECOND
            if on_time and life.saw(batch) and (life.start is None or time >= life.start):
                seen.append(row | {"_t": time})
        top = max([*times, *([] if top is None else [top])])
    return seen


def windows(query: DemoQuery, times: list[int], start: int | None) -> int:
    """How often a combination with these times is a result."""
    if not query.size:
        return 1
    size, slide = query.size * 1_000_000, query.slide * 1_000_000
    if not slide:
        return int(all(time > max(times) - size for time in times))
    opens = range((min(times) - size) // slide * slide, max(times) + 1, slide)
    return sum(
        all(opened <= time < opened + size for time in times) and (start is None or opened >= start) for opened in opens
    )


def holds(condition: str, row: dict[str, Any]) -> bool:
    """Conditions of the demo are Python, but for a few words."""
    text = condition.split(".", 1)[1].replace(" = ", " == ").replace(" IN ", " in ")
    if " BETWEEN " in text:
        column, bounds = text.split(" BETWEEN ")
        low, high = bounds.split(" AND ")
        text = f"{low} <= float({column}) <= {high}"
    return bool(eval(text, {}, row))


def expected_count(arrivals: Arrivals, query: DemoQuery, life: Life) -> int:
    sides = [
        [
            row
            for row in rows_seen(arrivals, stream, life)
            if all(holds(each, row) for each in query.conditions if each.startswith(f"{alias}."))
        ]
        for stream, alias in query.relations
    ]
    if len(sides) == 2:
        by_key: dict[Any, list[dict[str, Any]]] = {}
        for row in sides[1]:
            by_key.setdefault(tuple(row[key] for key in query.keys), []).append(row)
        pairs = [(a, b) for a in sides[0] for b in by_key.get(tuple(a[key] for key in query.keys), ())]
        pairs = [(a, b) for a, b in pairs if a["userID"] is not None]
        return sum(windows(query, [a["_t"], b["_t"]], life.start) for a, b in pairs)
    return sum(windows(query, [row["_t"]], life.start) for row in sides[0])


@pytest.mark.parametrize(("first", "last"), [(0, 3), (2, BATCHES)])
def test_the_judge_reads_the_contract(arrivals: Arrivals, judge: Judge, first: int, last: int) -> None:
    found = 0
    for query in queries(20):
        life = Life(first, last, judge.start(query, first))
        count = alone(judge, query, life).num_rows
        assert count == expected_count(arrivals, query, life), query.sql
        found += count
    assert found > 100


def test_every_difference_is_noticed(judge: Judge) -> None:
    compared = 0
    for query in queries(20):
        life = Life(1, BATCHES, judge.start(query, 1))
        rows = alone(judge, query, life)
        assert judge.compare(query, life, rows).agrees
        if rows.num_rows < 2:
            continue
        compared += 1
        missing = judge.compare(query, life, rows.slice(1))
        assert (missing.agrees, missing.missing, missing.surplus) == (False, 1, 0)
        twice = judge.compare(query, life, pa.concat_tables([rows, rows.slice(0, 1)]))
        assert (twice.agrees, twice.missing, twice.surplus) == (False, 0, 1)
        assert not judge.compare(query, Life(1, BATCHES, (life.start or 0) + 1), rows).agrees
    assert compared > 5


def test_there_are_late_rows_and_they_do_not_count(tmp_path: Path) -> None:
    arrivals = generated(tmp_path / "in", 4_000)
    judge = Judge(arrivals)
    for stream, files in arrivals.items():
        written = sum(pq.read_metadata(path).num_rows for path in files)
        late = written - len(rows_seen(arrivals, stream, Life(0, None, None)))
        assert 0 < late < 100
        assert judge._database.sql(f'SELECT count(*) FROM {stream} WHERE "_late"').fetchall() == [(late,)]


def test_a_stream_that_nobody_read_is_left_out(arrivals: Arrivals) -> None:
    judge = Judge(arrivals | {"ads": {}})
    query = next(query for query in queries(50) if query.streams == {"purchases"})
    assert alone(judge, query, Life(0, None, None)).num_rows > 0


def test_weft_agrees(tmp_path: Path, arrivals: Arrivals, judge: Judge) -> None:
    """The demo without Spark: the engine's core over the generated files, queries that come and go, then the judge."""
    harness = CoreHarness(tmp_path / "state", STREAMS, partitions=2)
    asked = {query.name: query for query in queries(24) if " * " not in query.outputs}
    names = list(asked)
    for batch in range(BATCHES):
        harness.create_many([(asked[name].sql, name) for name in names[batch * 4 : batch * 4 + 4]])
        if batch >= 2:
            harness.drop(names[batch])
        tables = {stream: [pq.read_table(path) for path in files_of(arrivals, stream, batch)] for stream in SCHEMAS}
        harness.batch({stream: [t.combine_chunks().to_batches()[0] for t in each] for stream, each in tables.items()})
    found = 0
    for record in harness.core.roster.records.values():
        rows = harness.results(record.name)
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        table = pa.table(columns, names=[f"c{n}" for n in range(len(columns))])
        query = asked[record.name]
        life = Life(record.created, record.ended, record.start)
        verdict = judge.compare(query, life, table if rows else empty_table(query))
        assert verdict.agrees, verdict
        found += len(rows)
    assert found > 50
    harness.core.directory.close()


def test_holds_is_itself_right() -> None:
    """The helper above reads the conditions of the demo."""
    row = {"price": 5, "gemPack": 3, "length": 20}
    for condition, expected in (
        ("p.price > 4", True),
        ("p.price < 4.50", False),
        ("p.price BETWEEN 5.00 AND 6.99", True),
        ("a.gemPack IN (1, 2, 4)", False),
        ("a.gemPack = 3", True),
        ("a.length >= 20", True),
    ):
        assert holds(condition, row) is expected


QUERY = DemoQuery("ads-7", (("ads", "a"),), (), 0, 0, ("a.length >= 20",), "a.userID, a.length")
RIGHT = Verdict(QUERY, rows=12_345, expected=12_345, missing=0, surplus=0, start_agrees=True)
SHORT = replace(RIGHT, rows=12_344, missing=1)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (RIGHT, "  ✓ ads-7: 12,345 rows, DuckDB alone 12,345"),
        (SHORT, "  ✗ ads-7: 12,344 rows, DuckDB alone 12,345; 1 missing, 0 too many"),
        (
            replace(RIGHT, start_agrees=False),
            "  ✗ ads-7: 12,345 rows, DuckDB alone 12,345; 0 missing, 0 too many, complete_from differs",
        ),
    ],
)
def test_a_verdict_in_words(verdict: Verdict, expected: str) -> None:
    assert str(verdict) == f"{expected}\n    SELECT a.userID, a.length FROM ads a WHERE a.length >= 20"


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "no query has results yet, so there is nothing to compare"),
        ([RIGHT], "1 random query agrees row for row with DuckDB running each alone"),
        ([RIGHT] * 3, "3 random queries agree row for row with DuckDB running each alone"),
        ([RIGHT, SHORT, RIGHT], "1 of 3 queries do NOT agree with DuckDB running each alone"),
        ([replace(RIGHT, surplus=1)], "1 of 1 queries do NOT agree with DuckDB running each alone"),
        ([replace(RIGHT, start_agrees=False)], "1 of 1 queries do NOT agree with DuckDB running each alone"),
    ],
)
def test_conclusion(verdicts: list[Verdict], expected: str) -> None:
    assert conclusion(verdicts) == expected
