"""Small streams, rows and an engine core to play with, for the tests of plan, state, runtime and engine."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.harness import CoreHarness
from weft.engine.core import Core
from weft.engine.queries.roster import Roster
from weft.execution.items import Report
from weft.execution.program import BatchTask, Program
from weft.execution.stages import run_here
from weft.plan.changelog import LiveQuery, QueryId, QueryRecord
from weft.plan.stream import FrameSource, Stream
from weft.planner.strategy import live_query
from weft.sql import bind, parse_schema
from weft.storage.directory import Directory
from weft.storage.ended_queries import EndedQueries
from weft.storage.journal import Manifest

DDL = "ts timestamp, k bigint, j bigint, x int, s string"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("j", pa.int64()), ("x", pa.int32()), ("s", pa.string())]
)
WINDOW = "[RANGE 10 SECONDS]"
JOIN = f"SELECT p.x AS px, q.x AS qx FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k"


def stream(name: str, *, lateness: float = 0, retain: timedelta | None = None, ddl: str = DDL) -> Stream:
    return Stream(name, parse_schema(ddl), "ts", timedelta(seconds=lateness), retain, FrameSource())


STREAMS = {name: stream(name) for name in "abc"}


def rows(*values: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows (second, k, x), or with j and s too; a second of None is no time."""
    records = []
    for second, k, x, *rest in values:
        j, s = (*rest, *(None, None)[len(rest) :])
        time = None if second is None else EPOCH + timedelta(seconds=second)
        records.append({"ts": time, "k": k, "j": j, "x": x, "s": s})
    return pa.RecordBatch.from_pylist(records, schema=SCHEMA)


def new_roster() -> Roster:
    """A roster on a state directory of its own."""
    folder = tempfile.mkdtemp(prefix="weft-roster-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Roster(STREAMS, EndedQueries(Directory(Path(folder), -1)))


def open_core(path: Path, *, partitions: int = 2, streams: Iterable[Stream] = STREAMS.values()) -> CoreHarness:
    return CoreHarness(path, list(streams), partitions=partitions)


def run_batch(core: Core, inputs: Mapping[str, Sequence[pa.RecordBatch]], *, partitions: int = 2) -> Manifest:
    """One batch on a core, from the stages themselves, each piece of input as one file."""
    begun = core.begin(core.next_batch, partitions=partitions)
    assert begun is not None
    return core.commit(core.next_batch, reports_of(*begun, inputs))


def reports_of(program: Program, task: BatchTask, inputs: Mapping[str, Sequence[pa.RecordBatch]]) -> list[Report]:
    """Return the reports of the tasks of a batch."""
    tables = ((name, pa.Table.from_batches([piece]), ()) for name, pieces in inputs.items() for piece in pieces)
    return run_here(program, task, tables)


def live(sql: str, slot: int = 0, *, start: int | None = None, route: tuple[int, ...] | None = None) -> LiveQuery:
    """A live query that has all its keys as its route unless told."""
    query = bind(sql, STREAMS)
    place = tuple(range(len(query.keys))) if route is None else route
    return live_query(QueryRecord(QueryId(f"q{slot}"), f"q{slot}", sql, slot, 0, start, place), query)


def data_files(harness: CoreHarness) -> set[str]:
    """Every file in the data folder, relative to it."""
    folder = harness.core.directory.path("data")
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
