"""The public engine: declare streams, create and drop queries while data flow, read results."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from weft.engine.batches.batches import Batches, BatchSettings
from weft.engine.batches.lifecycle import Health, Running
from weft.engine.batches.summary import BatchSummary
from weft.engine.catalog import Catalog, SinkFor, no_sink
from weft.engine.core import Core
from weft.engine.inputs.declaring import Declaring
from weft.engine.inputs.inputs import Inputs
from weft.engine.query import Query
from weft.engine.results.retention import AUTOMATIC, KEEP_RESULTS, SINK_BACKLOG, SINK_PATIENCE, Retention, keep
from weft.engine.sinks.sinks import Sink
from weft.errors import EngineStopped, UnknownQuery, WeftError
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.planner.joins.planners import Planner, plan_probes
from weft.spark.batch_job import BatchRunner
from weft.spark.java_lock import JavaLock
from weft.spark.job_pools import READ_LIMIT
from weft.spark.session import SparkLease
from weft.spark.stream_frames import Frames
from weft.sql import parse_duration
from weft.storage.directory import Directory


class Engine(Declaring):
    """An engine that runs many ad-hoc queries over shared streams in one Spark job.

    `path` is the directory of all state: a new engine on the same path continues. `partitions` may differ from run to
    run. Results are kept for `keep_results` (24 hours; None: for ever), where only time with an open engine counts, and
    up to `keep_bytes` (50 GB; no limit if results are kept for ever). Results that a sink has not received are kept
    longer, for `sink_patience` (24 hours) and up to `sink_backlog` bytes (10 GB); then the sink has failed and waits
    for `Query.resume_sink`. A batch that takes longer than `batch_limit` (10 minutes) is given up, and the query at
    fault is set aside. A read for which Spark computes one piece of rows for longer than `read_limit` (a minute) is
    cancelled with ReadTimeout. `planner` chooses the probe orders of joins of many relations.

    The engine works in its own session (`engine.spark`) on the Spark of `spark`, by default on the Spark that already
    runs in this process. It changes none of your settings and leaves that Spark running. If no Spark runs, the engine
    starts a local one, which stops with the last engine that uses it.
    """

    def __init__(  # noqa: PLR0913 each is a setting that users give by its name
        self,
        path: str | os.PathLike[str],
        *,
        partitions: int | None = None,
        spark: Any = None,
        keep_results: str | timedelta | None = KEEP_RESULTS,
        keep_bytes: str | int | None = AUTOMATIC,
        sink_backlog: str | int | None = SINK_BACKLOG,
        sink_patience: str | timedelta | None = SINK_PATIENCE,
        batch_limit: str | timedelta = "10 minutes",
        read_limit: str | timedelta = timedelta(seconds=READ_LIMIT),
        planner: Planner = plan_probes,
    ) -> None:
        settings = BatchSettings(
            partitions=os.cpu_count() or 1 if partitions is None else partitions, longest=parse_duration(batch_limit)
        )
        kept = keep(keep_results, keep_bytes, sink_backlog=sink_backlog, sink_patience=sink_patience)
        with ExitStack() as undo:
            directory = Directory.open(path)
            undo.callback(directory.close)
            lease = SparkLease(spark)
            undo.callback(lease.release)
            self.spark: Any = lease.spark
            """The engine's own session, to which the DataFrames of results belong."""
            undo.callback(JavaLock(self.spark, directory.path("java.lock")).release)
            # Only with the Java lock: opening removes files that tasks of a killed engine may still read.
            core = self.core = Core(directory, planner=planner)
            """The owner of the engine's state, for modules of `weft.engine` only."""
            self.catalog = Catalog(
                core, spark=lambda: self.spark, read_limit=parse_duration(read_limit).total_seconds()
            )
            """The operations that need no running batches."""
            runner = BatchRunner(self.spark)
            undo.callback(runner.close)
            self._closed = False
            deliveries = self.catalog.deliveries
            undo.callback(deliveries.stop)
            arrived = threading.Event()
            frames = Frames(directory.path("spark"), arrived=arrived.set)
            self._inputs = Inputs(core, frames, arrived)
            self._retention = Retention(core, deliveries, kept)
            self._batches = Batches(core, runner, self._inputs, self._retention, settings=settings)
            self._running = Running(core, self.spark, self._inputs, self._batches, longest=settings.longest)
            self.catalog.is_running = lambda: self._running.active
            self.catalog.stream_errors = self._inputs.faults
            deliveries.restore()
            # Last, so that a failure before this releases the directory.
            self._release = undo.pop_all()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- queries

    def create(self, sql: str, *, name: str | None = None, sink: Sink | None = None) -> Query:
        """Create a query, which takes effect at the next boundary, or at once if no batch is running."""
        return self._create([(sql, name)], lambda _: sink)[0]

    def create_many(self, queries: Sequence[str | tuple[str, str]], *, sink: SinkFor = no_sink) -> list[Query]:
        """Create queries (texts, or (name, text)) in one changelog, all or none; `sink` chooses the sink of each."""
        return self._create([(item, None) if isinstance(item, str) else (item[1], item[0]) for item in queries], sink)

    def drop_many(self, queries: Sequence[Query]) -> None:
        """Drop queries in one changelog."""
        self.catalog.drop(queries)

    def _create(self, items: Sequence[tuple[str, str | None]], sink: SinkFor) -> list[Query]:
        return self.create_checked([(name, self.check(sql)) for sql, name in items], sink=sink)

    def create_checked(
        self, queries: Sequence[tuple[str | None, BoundQuery]], *, sink: SinkFor = no_sink
    ) -> list[Query]:
        """Create queries that `check` has returned, (name or None, query), in one changelog: all or none."""
        self._check_open()
        return self.catalog.create(queries, sink=sink)

    def check(self, sql: str, *, streams: Mapping[str, Stream] | None = None) -> BoundQuery:
        """Return the bound query of a text, which may name only `streams` if given; raises WeftError if invalid."""
        self._check_open()
        return self.catalog.check(sql, streams=streams)

    def query(self, name: str) -> Query:
        """Return the live or pending query of a name, else the latest that had it; raises UnknownQuery."""
        query = self.catalog.find_query(name)
        if query is None:
            raise UnknownQuery(f'query "{name}" does not exist', hint="engine.queries() lists the live ones.")
        return query

    def query_by_id(self, query_id: QueryId) -> Query:
        """Return the handle of a query that is on record; raises UnknownQuery."""
        return self.catalog.query_by_id(query_id)

    def queries(self) -> list[Query]:
        """Return the live and pending queries."""
        return self.catalog.queries()

    def explain(self) -> str:
        """Return the shared plan as text."""
        return self.catalog.explain()

    # ---- running

    @property
    def summaries(self) -> Sequence[BatchSummary]:
        """Summaries of the last committed batches, newest last."""
        return self._batches.summaries

    @property
    def error(self) -> WeftError | None:
        """Why the last batch failed, None if it did not. If retries do not help, the engine runs no more batches."""
        return self._batches.error

    @property
    def running(self) -> bool:
        """Whether batches are run in the background."""
        return self._running.active

    def health(self) -> Health:
        """Return the health of the engine. Callable from any thread; takes no lock and does not wait for Spark."""
        return self._running.health()

    def start(self, trigger: str = "0 seconds") -> None:
        """Run batches in the background, every `trigger`; "available-now" ends when all present input is processed."""
        self._check_open()
        self._running.start(trigger)

    def step(self) -> BatchSummary | None:
        """Run exactly one batch over the present input and return its summary; None if there is no new input."""
        self._check_open()
        return self._running.step()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until batches end, by "available-now" or a failure, which is raised; return False on timeout."""
        return self._running.wait(timeout)

    def stop(self) -> None:
        """Stop running batches, deliver committed rows to sinks and release the path. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        with self._release:
            self._running.halt()
            self.catalog.deliveries.stop()
            if self.core.next_batch:
                self._retention.save()
                self.core.checkpoint()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineStopped("the engine was stopped", hint="Make a new Engine on the same path to go on.")
