"""The aggregate over a join with a large fan-out on weft, and the same through rows of the join.

A batch is handed over when the results of the one before have been read, so its time is all that its results cost:
finding the files, running, committing, reading the rows and, where they are pairs, aggregating them with DuckDB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from weft.engine import Engine, Query
from weft.engine.inputs.declare import files
from weft_bench.case import Case, Kind, Outcome, Variant
from weft_bench.data import SCHEMA, START, STREAMS, file_of
from weft_bench.measure import Batch, rate_alone
from weft_bench.weft_system import digest_of
from weft_bench.workload import AGGREGATED_PAIRS, GROUPED_PAIRS, PLAIN_PAIRS

_POLL = 0.002
_KEPT = "10 seconds"
"""Results are read at once: what was read need not fill the disk."""
Consume = Callable[[int, int], pa.Table]


def run_fan_out(case: Case, folder: Path, limit: float) -> Outcome:
    """Measure a case over the files under `folder`, for at most `limit` seconds."""
    live, materialized = folder / "live", case.variant is Variant.MATERIALIZED
    for name in STREAMS:
        (live / name).mkdir(parents=True)
    with Engine(folder / "state", partitions=os.cpu_count() or 1, keep_results=_KEPT) as engine:
        for name in STREAMS:
            engine.stream(name, files(live / name, schema=SCHEMA), time="ts", lateness="0 seconds", max_ahead=None)
        query = engine.create(PLAIN_PAIRS if materialized else AGGREGATED_PAIRS)
        engine.start()
        with _consumer(query, materialized=materialized) as consume:
            batches, results = _closed_loop(case, engine, consume, folder=folder, deadline=time.time() + limit)
    result = pa.concat_tables(results)
    ended = result.filter(pc.less(result["start"], START + timedelta(seconds=case.seconds - 1)))
    outcome = rate_alone(batches, case.batch_rows)
    if len(batches) < case.seconds // case.files:
        return replace(outcome, note=f"stopped after {limit:.0f} s")
    return replace(outcome, digests={0: digest_of(Kind.FAN_OUT, [ended])})


@contextmanager
def _consumer(query: Query, *, materialized: bool) -> Iterator[Consume]:
    """A function from batches first … last − 1 to their aggregates."""
    with duckdb.connect() as connection:

        def consume(first: int, last: int) -> pa.Table | None:
            tables = list(query.tables(first, last))
            if not tables:
                return None
            rows = pa.concat_tables(tables)
            if not materialized:
                return rows
            connection.register("pairs", rows)
            try:
                return connection.execute(GROUPED_PAIRS).to_arrow_table()
            finally:
                connection.unregister("pairs")

        yield consume


def _closed_loop(
    case: Case, engine: Engine, consume: Consume, *, folder: Path, deadline: float
) -> tuple[list[Batch], list[pa.Table]]:
    batches, results, done = list[Batch](), list[pa.Table](), 0
    for number in range(case.seconds // case.files):
        began, rows = time.time(), 0
        for second in range(number * case.files, (number + 1) * case.files):
            for name in STREAMS:
                os.link(file_of(folder, name, second), file_of(folder / "live", name, second))
        while rows < case.batch_rows:  # one stream's files may come a batch before the other's
            if time.time() > deadline or not engine.running:
                engine.wait(0)  # a failure is raised here
                return batches, results
            new = [summary for summary in list(engine.summaries) if summary.batch >= done]
            if not new:
                time.sleep(_POLL)
                continue
            rows += sum(summary.rows for summary in new)
            table = consume(done, new[-1].batch + 1)
            if table is not None:
                results.append(table)
            done = new[-1].batch + 1
        batches.append(Batch(number, began, time.time() - began, case.batch_rows))
    return batches, results
