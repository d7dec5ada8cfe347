"""The public engine: streams in, queries created and dropped while data flow, results out."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from weft.engine.analysis import check_types
from weft.engine.batches import Batches, BatchSettings, BatchSummary
from weft.engine.core import Core
from weft.engine.deliveries import Deliveries
from weft.engine.explain import explain_plan
from weft.engine.query import Query
from weft.engine.registry import check_name
from weft.engine.running import Running
from weft.engine.sinks import Sink
from weft.engine.streams import declare_stream
from weft.errors import EngineStopped, UnknownQuery, WeftError
from weft.optimize.multiway import Planner, plan_probes
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery
from weft.plan.stream import IDLE_TIMEOUT, FrameSource, Stream
from weft.runtime.job import BatchRunner
from weft.runtime.lock import JavaLock
from weft.runtime.loop import Loop
from weft.runtime.session import local_session
from weft.sql import bind, parse_duration
from weft.state.directory import Directory

_log = logging.getLogger("weft")


class Engine:
    """Many ad-hoc queries over shared streams in one Spark job.

    `path` holds everything: a new engine on the same path continues. `partitions` may differ from run to run.
    `keep_results` bounds the result log; `planner` chooses probe orders of joins of many relations.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partitions: int | None = None,
        spark: Any = None,
        keep_results: str | timedelta | None = None,
        planner: Planner = plan_probes,
    ) -> None:
        settings = BatchSettings(
            partitions=os.cpu_count() or 1 if partitions is None else partitions,
            keep_results=None if keep_results is None else parse_duration(keep_results),
        )
        directory = Directory.open(path)
        try:
            self.core = Core(directory, planner=planner)
            self._owns_spark = spark is None
            self.spark = local_session() if spark is None else spark
            self._java_lock = JavaLock(self.spark, directory.path("java.lock"))
        except BaseException:
            directory.close()
            raise
        self._closed = False
        self.deliveries = Deliveries(self)
        self._batches = Batches(self.core, BatchRunner(self.spark), self.deliveries, settings=settings)
        loop = Loop(self.spark, str(directory.path("spark")), self._batches.run)
        self._running = Running(self.core, loop, self._batches)
        self.deliveries.restore()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- streams

    def stream(
        self,
        name: str,
        source: Any,
        *,
        time: str,
        lateness: str | timedelta = "0 seconds",
        retain: str | timedelta | None = None,
        idle_timeout: str | timedelta = IDLE_TIMEOUT,
    ) -> Stream:
        """Declare a stream: `weft.files(...)` or any streaming DataFrame; also while data flow. Again is harmless, and
        needed after a restart for DataFrames. After `idle_timeout` without rows, windows do not wait for it."""
        self._check_open()
        stream = declare_stream(
            check_name("stream", name),
            source,
            time=time,
            lateness=parse_duration(lateness),
            retain=None if retain is None else parse_duration(retain),
            idle_timeout=parse_duration(idle_timeout),
            existing=self.core.streams.get(name),
        )
        if isinstance(stream.source, FrameSource):
            self._running.frames[name] = source
        if self.core.streams.get(name) != stream:
            with self._running.paused():
                self.core.add_stream(stream)
            _log.info("stream declared", extra={"stream": name})
        return stream

    def streams(self) -> tuple[Stream, ...]:
        """All declared streams."""
        return tuple(self.core.streams.values())

    # ---- queries

    def create(self, sql: str, *, name: str | None = None, sink: Sink | None = None) -> Query:
        """Create a query; it is in effect from the next boundary on, at once if no batch is running."""
        return self._create([(sql, name)], lambda _: sink)[0]

    def create_many(
        self, queries: Sequence[str | tuple[str, str]], *, sink: Callable[[Query], Sink | None] = lambda _: None
    ) -> list[Query]:
        """Create queries (texts, or (name, text)) in one changelog: all or nothing; `sink` says where each delivers."""
        return self._create([(item, None) if isinstance(item, str) else (item[1], item[0]) for item in queries], sink)

    def drop_many(self, queries: Sequence[Query]) -> None:
        """Drop queries in one changelog."""
        self.core.submit(drop=[query.id for query in queries])

    def _create(self, items: Sequence[tuple[str, str | None]], sink: Callable[[Query], Sink | None]) -> list[Query]:
        bound = [self.check(sql) for sql, _ in items]
        names = [name if name is None else check_name("query", name) for _, name in items]
        request = self.deliveries.create(list(zip(names, bound, strict=True)), sink)
        return [Query(self, query_id, name, request) for query_id, name, _ in request.created]

    def check(self, sql: str) -> BoundQuery:
        """The query that a text means, if it can be run; creates nothing and raises what is wrong with it."""
        self._check_open()
        return check_types(bind(sql, self.core.streams), self.core.streams, self.spark)

    def query(self, name: str) -> Query:
        """The query of this name: the live one, else the latest that had it."""
        with self.core.lock:
            found = self.core.roster.find(name)
        if found is None:
            raise UnknownQuery(f'query "{name}" does not exist', hint="engine.queries() lists the live ones.")
        return self.query_by_id(found)

    def query_by_id(self, query_id: QueryId) -> Query:
        """The handle of a query that is on record."""
        return Query(self, query_id, self.core.roster.name_of(query_id), None)

    def queries(self) -> list[Query]:
        """Live and pending queries."""
        with self.core.lock:
            return [self.query_by_id(each) for each in self.core.roster.names.values()]

    def explain(self) -> str:
        """The shared plan as text."""
        return explain_plan(self.core.plan, self.core.planning.flows)

    # ---- running

    @property
    def summaries(self) -> Sequence[BatchSummary]:
        """The last committed batches in figures, newest last."""
        return self._batches.summaries

    @property
    def error(self) -> WeftError | None:
        """Why the last batch failed, after which the engine does not run any more; None if it did not."""
        return self._batches.error

    @property
    def running(self) -> bool:
        """Whether `start` is in effect."""
        return self._running.active

    def start(self, trigger: str = "0 seconds") -> None:
        """Run batches in the background: every `trigger`, or "available-now" until all that is there is done."""
        self._check_open()
        self._running.start(trigger)

    def step(self) -> BatchSummary | None:
        """Run exactly one micro-batch over what is there now; None if nothing is new."""
        self._check_open()
        return self._running.step()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the engine ends by itself ("available-now", or a failure, which is raised); False on timeout."""
        return self._running.wait(timeout)

    def stop(self) -> None:
        """Stop, deliver what is committed, give the path up; harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        try:
            self._running.halt()
            self.deliveries.stop()
            if self.core.next_batch:
                self.core.checkpoint()
        finally:
            self._java_lock.release()
            self.core.directory.close()
            if self._owns_spark:
                self.spark.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineStopped("the engine was stopped", hint="Make a new Engine on the same path to go on.")
