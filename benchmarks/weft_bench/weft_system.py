"""A case on weft: one engine, all queries created before the first batch, everything that is there processed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.engine import Engine, Query
from weft.engine.inputs.declare import files
from weft.spark.stream_frames import AVAILABLE_NOW
from weft_bench.case import Case, Digest, Kind, Outcome, Variant
from weft_bench.data import SCHEMA
from weft_bench.digest import aggregate_digest, join_digest
from weft_bench.measure import Batch, rate_alone
from weft_bench.workload import WindowAggregate, WindowJoin, window_aggregates, window_joins

_POLL = 0.005
_CHECKED = {Kind.JOINS: {20: 3}, Kind.AGGREGATES: {20: 3, 100: 3, 1000: 3}}
"""How many queries' results are compared with DuckDB, where it is not one."""


def run_weft(case: Case, folder: Path, limit: float) -> Outcome:
    """Measure a case over the files under `folder`, for at most `limit` seconds."""
    with Engine(folder / "state", partitions=os.cpu_count() or 1) as engine:
        for name in case.kind.streams:
            engine.stream(name, _source(case, engine, folder / name), time="ts", lateness="0 seconds", max_ahead=None)
        queries = engine.create_many([query.weft_sql() for query in _workload(case)])
        engine.start(AVAILABLE_NOW)
        deadline = time.monotonic() + limit
        if case.variant is Variant.DELIVERED:
            outcome = _deliver(case, engine, queries, deadline)
        else:
            engine.wait(limit)
            outcome = rate_alone(finished_batches(engine), case.batch_rows)
        if not engine.wait(1):  # a failure is raised here
            return replace(outcome, note=f"stopped after {limit:.0f} s")
        return replace(outcome, digests=_digests(case, queries))


def _workload(case: Case) -> Sequence[WindowJoin | WindowAggregate]:
    return window_joins(case.queries) if case.kind is Kind.JOINS else window_aggregates(case.queries)


def _source(case: Case, engine: Engine, path: Path) -> Any:
    if case.variant is Variant.ROWS:
        return engine.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", case.files).parquet(str(path))
    return files(path, schema=SCHEMA, max_files_per_batch=case.files)


def finished_batches(engine: Engine) -> list[Batch]:
    """The batches of a running or ended engine, as it reports them itself."""
    found = []
    for summary in list(engine.summaries):
        seconds = sum(summary.seconds.get(phase, 0.0) for phase in ("compile", "run", "commit"))
        found.append(Batch(summary.batch, summary.at - seconds, seconds, summary.rows))
    return found


def _deliver(case: Case, engine: Engine, queries: Sequence[Query], deadline: float) -> Outcome:
    """Read the rows of all queries out as batches are committed; a batch lasts until the last of them is read."""
    delivered, done, since, rows = list[Batch](), 0, time.monotonic(), 0
    while time.monotonic() < deadline:
        running = engine.running  # asked first: what is committed before it ends is seen below
        committed = engine.summaries[-1].batch + 1 if engine.summaries else 0
        for batch in range(done, committed):
            rows += sum(table.num_rows for query in queries for table in query.tables(batch, batch + 1))
            now = time.monotonic()
            delivered.append(Batch(batch, since, now - since, case.batch_rows))
            since = now
        if done == committed and not running:
            break
        done = committed
        time.sleep(_POLL)
    return replace(rate_alone(delivered, case.batch_rows), note=f"{rows:,} result rows read")


def _digests(case: Case, queries: Sequence[Query]) -> dict[int, Digest]:
    chosen = queries[: _CHECKED[case.kind].get(case.queries, 1)]
    return {number: digest_of(case.kind, query.tables(0, 1 << 62)) for number, query in enumerate(chosen)}


def digest_of(kind: Kind, tables: Iterable[Any]) -> Digest:
    """The digest of all these rows of a query of this kind."""
    total = Digest()
    for table in tables:
        total = total.plus(join_digest(table) if kind is Kind.JOINS else aggregate_digest(table))
    return total
