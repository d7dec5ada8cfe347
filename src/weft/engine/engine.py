"""The public engine: streams in, queries created and dropped while data flow, results out."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from weft.engine.analysis import check_types
from weft.engine.core import Core
from weft.engine.explain import explain_plan
from weft.engine.query import Query
from weft.engine.registry import check_name
from weft.engine.sinks import Deliveries, Sink
from weft.engine.streams import declare_stream
from weft.errors import EngineStopped, InvalidSetting, UnknownQuery, WeftError
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery
from weft.plan.stream import FrameSource, Stream
from weft.runtime.failures import to_user_error
from weft.runtime.job import BatchRunner
from weft.runtime.loop import AVAILABLE_NOW, Loop
from weft.runtime.session import local_session
from weft.sql import bind, parse_duration
from weft.state.directory import Directory
from weft.state.journal import Manifest, StreamTotals

_log = logging.getLogger("weft")
_KEPT_SUMMARIES = 1000
_MAX_PARTITIONS = 4096


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One committed micro-batch in figures."""

    batch: int
    streams: Mapping[str, StreamTotals]
    pairs: int
    queries: int
    failed: tuple[str, ...]
    seconds: Mapping[str, float]
    """Wall time of its phases: compile, run, commit."""

    @property
    def rows(self) -> int:
        """Input rows of all streams."""
        return sum(totals.rows for totals in self.streams.values())

    @property
    def late(self) -> int:
        """Rows dropped because they were older than their stream's watermark."""
        return sum(totals.late for totals in self.streams.values())


class Engine:
    """Many ad-hoc queries over shared streams in one Spark job.

    `path` holds everything: a new engine on the same path continues. `partitions` may differ from run to run.
    `keep_results` bounds the result log: results of batches committed longer ago are freed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partitions: int | None = None,
        spark: Any = None,
        keep_results: str | timedelta | None = None,
    ) -> None:
        partitions = os.cpu_count() or 1 if partitions is None else partitions
        if not 1 <= partitions <= _MAX_PARTITIONS:
            raise InvalidSetting(f"partitions is {partitions}", hint=f"Give a number from 1 to {_MAX_PARTITIONS}.")
        self.partitions = partitions
        self._keep = None if keep_results is None else parse_duration(keep_results)
        directory = Directory.open(path)
        try:
            self.core = Core(directory)
            self._owns_spark = spark is None
            self.spark = local_session() if spark is None else spark
        except BaseException:
            directory.close()
            raise
        self._frames: dict[str, Any] = {}
        self._runner = BatchRunner(self.spark)
        self._loop = Loop(self.spark, str(directory.path("spark")), self._on_batch)
        self._trigger = ""
        self._closed = False
        self.error: WeftError | None = None
        self.summaries: deque[BatchSummary] = deque(maxlen=_KEPT_SUMMARIES)
        self.deliveries = Deliveries(self)
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
    ) -> Stream:
        """Declare a stream: `weft.files(...)` or any streaming DataFrame; also while data flow.

        Declaring the same stream again is harmless, and needed after a restart for DataFrames.
        """
        self._check_open()
        stream = declare_stream(
            check_name("stream", name),
            source,
            time=time,
            lateness=parse_duration(lateness),
            retain=None if retain is None else parse_duration(retain),
            existing=self.core.streams.get(name),
        )
        if isinstance(stream.source, FrameSource):
            self._frames[name] = source
        if self.core.streams.get(name) != stream:
            restart = self._loop.running
            if restart:
                self._loop.stop()
            self.core.add_stream(stream)
            _log.info("stream declared", extra={"stream": name})
            if restart:
                self._loop.start(self.core.streams, self._frames, self._trigger)
        return stream

    def streams(self) -> tuple[Stream, ...]:
        """All declared streams."""
        return tuple(self.core.streams.values())

    # ---- queries

    def create(self, sql: str, *, name: str | None = None, sink: Sink | None = None) -> Query:
        """Create a query; it is in effect from the next boundary on, at once if no batch is running."""
        query = self._create([(sql, name)])[0]
        if sink is not None:
            query.deliver_to(sink)
        return query

    def create_many(self, queries: Sequence[str | tuple[str, str]]) -> list[Query]:
        """Create queries (texts, or (name, text)) in one changelog: all or nothing."""
        return self._create([(item, None) if isinstance(item, str) else (item[1], item[0]) for item in queries])

    def drop_many(self, queries: Sequence[Query]) -> None:
        """Drop queries in one changelog."""
        self.core.submit(drop=[query.id for query in queries])

    def _create(self, items: Sequence[tuple[str, str | None]]) -> list[Query]:
        self._check_open()
        bound = [self._bind(sql) for sql, _ in items]
        with self.core.lock:
            names = [check_name("query", name) if name is not None else None for _, name in items]
            request = self.core.submit(create=list(zip(names, bound, strict=True)))
        return [Query(self, query_id, name, request) for query_id, name, _ in request.created]

    def _bind(self, sql: str) -> BoundQuery:
        query = bind(sql, self.core.streams)
        return check_types(query, self.core.streams, self.spark)

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
            return [self.query_by_id(query_id) for query_id in self.core.roster.names.values()]

    def explain(self) -> str:
        """The shared plan as text."""
        return explain_plan(self.core.plan)

    # ---- running

    @property
    def running(self) -> bool:
        """Whether `start` is in effect."""
        return self._loop.running

    def start(self, trigger: str = "0 seconds") -> None:
        """Run batches in the background: every `trigger`, or "available-now" until all that is there is done."""
        self._check_open()
        if self._loop.running:
            raise EngineStopped("the engine is started already", hint="Stop it before you start it again.")
        if trigger != AVAILABLE_NOW:
            interval = parse_duration(trigger)
            trigger = f"{interval // timedelta(milliseconds=1)} milliseconds"
        self._trigger, self.error = trigger, None
        self._loop.start(self.core.streams, self._frames, trigger)

    def step(self) -> BatchSummary | None:
        """Run exactly one micro-batch over what is there now; None if nothing is new."""
        self._check_open()
        if self._loop.running:
            raise EngineStopped("the engine is started", hint="step() is for engines that are not; stop it first.")
        before, self.error = self.core.next_batch, None
        try:
            self._loop.run_one(self.core.streams, self._frames)
        except WeftError:
            raise
        except Exception as error:
            raise self._user_error(error) from error
        return self.summaries[-1] if self.core.next_batch > before else None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the engine ends by itself ("available-now", or a failure, which is raised); False on timeout."""
        try:
            return self._loop.wait(timeout)
        except Exception as error:
            raise self._user_error(error) from error

    def _user_error(self, error: Exception) -> WeftError:
        """What the batch itself said, rather than Spark's account of it."""
        return self.error or to_user_error(error, self.core.next_batch)

    def stop(self) -> None:
        """Stop, deliver what is committed, give the path up; harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        self._loop.stop()
        self.deliveries.stop()
        if self.core.next_batch:
            self.core.checkpoint()
        self.core.directory.close()
        if self._owns_spark:
            self.spark.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineStopped("the engine was stopped", hint="Make a new Engine on the same path to go on.")

    def _on_batch(self, frame: Any, batch: int) -> None:
        started = time.monotonic()
        try:
            begun = self.core.begin(batch, partitions=self.partitions)
            if begun is None:
                return
            compiled = time.monotonic()
            reports = self._runner.run(frame, *begun)
            ran = time.monotonic()
            manifest = self.core.commit(batch, reports)
        except BaseException as error:
            self.error = to_user_error(error, batch)
            _log.error("batch failed", extra={"batch": batch, "code": self.error.code, "error": self.error.message})
            self.core.abort()
            raise self.error from error
        seconds = {"compile": compiled - started, "run": ran - compiled, "commit": time.monotonic() - ran}
        self._note(manifest, seconds)

    def _note(self, manifest: Manifest, seconds: Mapping[str, float]) -> None:
        failed = tuple(self.core.roster.name_of(query) for query, _ in manifest.failed)
        summary = BatchSummary(
            manifest.batch, dict(manifest.streams), manifest.pairs, len(self.core.roster.live), failed, seconds
        )
        self.summaries.append(summary)
        for name, totals in manifest.streams:
            for bad in totals.bad_files:
                _log.error("file set aside", extra={"stream": name, "file": bad})
        for query, error in manifest.failed:
            _log.warning("query failed", extra={"query": self.core.roster.name_of(query), "error": error})
        if self._keep is not None:
            self._trim(manifest.at - self._keep.total_seconds())

    def _trim(self, committed_before: float) -> None:
        newer = next((m.batch for m in self.core.inventory.results if m.at >= committed_before), self.core.next_batch)
        undelivered = self.deliveries.oldest_undelivered()
        self.core.trim_results(newer if undelivered is None else min(newer, undelivered))
