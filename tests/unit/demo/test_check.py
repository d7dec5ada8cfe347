"""The judge: agrees with nested loops over the contract, and notices every difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.harness import CoreHarness
from weft.demo.check import Judge, Life
from weft.demo.generate import LATENESS, SCHEMAS, Generator
from weft.demo.ledger import Arrival, Ledger
from weft.demo.workload import Crowd, DemoQuery
from weft.engine.results.counts import count_rows
from weft.execution.results.read import plan_reading
from weft.plan.stream import FrameSource, Stream
from weft.plan.window import Range
from weft.sql import parse_schema

START = 1_700_000_000.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
BATCHES, TICKS_PER_BATCH = 6, 2
STREAMS = [Stream(n, parse_schema(s), "ts", LATENESS, None, FrameSource()) for n, s in SCHEMAS.items()]


def generated(folder: Path, rate: int) -> list[Arrival]:
    generator = Generator(folder, rate=rate, seed=2)
    ledger = Ledger(generator.written)
    for tick in range(BATCHES * TICKS_PER_BATCH):
        generator.write(START + tick * 0.5, START + tick * 0.5 + 0.5)
    rows = round(rate * 0.5) * TICKS_PER_BATCH
    for batch in range(BATCHES):
        ledger.note(batch, dict.fromkeys(SCHEMAS, rows))
    return ledger.arrivals


@pytest.fixture(scope="module")
def arrivals(tmp_path_factory: pytest.TempPathFactory) -> list[Arrival]:
    return generated(tmp_path_factory.mktemp("small") / "in", 150)


@pytest.fixture(scope="module")
def judge(arrivals: list[Arrival]) -> Iterator[Judge]:
    with Judge(arrivals) as judge:
        yield judge


def queries(count: int) -> list[DemoQuery]:
    minute = timedelta(minutes=1)
    return Crowd(3, most=count, duration=minute).arrivals(0, minute)


def alone(judge: Judge, query: DemoQuery, life: Life) -> pa.Table:
    """What the judge expects: compared with nothing, all of it is missing."""
    judge.compare(query, life, pa.table({f"c{n}": pa.nulls(0) for n in range(len(query.outputs))}))
    return judge._database.sql("FROM alone").to_arrow_table()


def rows_seen(arrivals: list[Arrival], stream: str, life: Life) -> list[dict[str, Any]]:
    """Rows a query may use, by the contract, with their event time in microseconds."""
    seen, top = [], None
    for batch in range(BATCHES):
        files = [each.file.path for each in arrivals if each.batch == batch and each.file.stream == stream]
        rows = [row for path in files for row in pq.read_table(path).to_pylist()]
        times = [(row["ts"] - EPOCH) // MICROSECOND for row in rows]
        for row, time in zip(rows, times, strict=True):
            on_time = top is None or time >= top - LATENESS // MICROSECOND
            if on_time and life.first <= batch < life.last and (life.start is None or time >= life.start):
                seen.append(row | {"_t": time})
        top = max([*times, *([] if top is None else [top])])
    return seen


def windows(query: DemoQuery, times: list[int], start: int | None) -> int:
    """How often a combination with these times is a result."""
    if query.window is None:
        return 1
    size = query.window.size // MICROSECOND
    if isinstance(query.window, Range):
        return int(all(time > max(times) - size for time in times))
    slide = query.window.slide // MICROSECOND
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


def expected_count(arrivals: list[Arrival], query: DemoQuery, life: Life) -> int:
    sides = [
        [row for row in rows_seen(arrivals, each.stream, life) if all(holds(c, row) for c in each.conditions)]
        for each in query.relations
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
def test_the_judge_reads_the_contract(arrivals: list[Arrival], judge: Judge, first: int, last: int) -> None:
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
    whole = Life(0, BATCHES, None)
    for stream in SCHEMAS:
        written = sum(arrival.file.rows for arrival in arrivals if arrival.file.stream == stream)
        assert 0 < written - len(rows_seen(arrivals, stream, whole)) < 100
        with Judge(arrivals) as judge:
            late = judge._database.sql(f'SELECT count(*) FROM {stream} WHERE "_late"').fetchall()
        assert late == [(written - len(rows_seen(arrivals, stream, whole)),)]


def test_weft_agrees_and_counts_right(tmp_path: Path, arrivals: list[Arrival], judge: Judge) -> None:
    """The demo without Spark: the engine's core over the generated files, queries that come and go, then the judge."""
    harness = CoreHarness(tmp_path / "state", STREAMS, partitions=2)
    asked = {query.name: query for query in queries(24) if all(" * " not in output for output in query.outputs)}
    names = list(asked)
    for batch in range(BATCHES):
        arriving = names[batch * 4 : batch * 4 + 4]
        harness.create_many([(asked[name].sql, name) for name in arriving])
        if batch >= 2:
            harness.drop(names[batch])
        files = [arrival.file for arrival in arrivals if arrival.batch == batch]
        tables = {stream: [pq.read_table(f.path) for f in files if f.stream == stream] for stream in SCHEMAS}
        harness.batch({stream: [t.combine_chunks().to_batches()[0] for t in each] for stream, each in tables.items()})
    core = harness.core
    data = str(core.directory.path("data"))
    records = {record.name: record for record in core.roster.records.values()}
    readings = {n: plan_reading(r, core.roster.bound_query(r.id), core.streams, data=data) for n, r in records.items()}
    counts = sum((count_rows(manifest, readings) for manifest in core.inventory.results), Counter[str]())
    for name, record in records.items():
        rows = harness.results(name)
        life = Life(record.created, BATCHES if record.ended is None else record.ended, record.start)
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        empty = pa.table({f"c{n}": pa.nulls(0) for n in range(len(asked[name].outputs))})
        table = pa.table(columns, names=[f"c{n}" for n in range(len(columns))]) if rows else empty
        verdict = judge.compare(asked[name], life, table)
        assert verdict.agrees, verdict
        assert counts[name] == len(rows)
    assert counts.total() > 50
    core.directory.close()


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
