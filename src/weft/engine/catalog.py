"""Everything that an engine can do without Spark: create and drop queries, declare streams, explain, read results.

`Engine` adds Spark and batches. The command line opens a catalog alone when no engine works on a state directory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from weft.engine.core import Core
from weft.engine.inputs.set_watermark import parse_time
from weft.engine.inputs.stream_store import check_name
from weft.engine.queries.analysis import check_types
from weft.engine.queries.create_queries import create_queries
from weft.engine.queries.look import find_query
from weft.engine.query import Query
from weft.engine.sinks.deliveries import Deliveries
from weft.engine.sinks.sinks import Sink
from weft.engine.snapshots import Snapshots
from weft.errors import EngineStopped, WeftError
from weft.plan.changelog import QueryId, QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.spark.job_pools import READ_LIMIT
from weft.sql import bind
from weft.storage.directory import Directory

_log = logging.getLogger("weft")
SinkFor = Callable[[Query], Sink | None]
"""Chooses the sink of a new query; None if the query has none."""


def no_sink(_: Query) -> None:
    """Choose no sink."""


class Catalog(Snapshots):
    """Queries, streams, sinks and results of one state directory."""

    def __init__(self, core: Core, *, spark: Callable[[], Any] | None = None, read_limit: float = READ_LIMIT) -> None:
        """`spark` returns the session that computes what weft does not; without it such requests are refused."""
        super().__init__(core)
        self._spark = spark or _refuse_spark
        self.read_limit = read_limit
        """Seconds that Spark may take for one piece of a query's rows."""
        self.is_running: Callable[[], bool] = lambda: False
        """Returns whether batches are run in the background."""
        self.stream_errors: Callable[[], dict[str, WeftError]] = dict
        """Returns why streams cannot be read now."""
        self.deliveries = Deliveries(self)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Catalog:
        """Open a state directory on which no engine works; its sinks are loaded but not started."""
        directory = Directory.open(path)
        try:
            catalog = cls(Core(directory))
            catalog.deliveries.remember()
        except BaseException:
            directory.close()
            raise
        return catalog

    def close(self) -> None:
        """Release the state directory of a catalog that was opened alone."""
        self.directory.close()

    @property
    def spark(self) -> Any:
        """The session that computes what weft does not; raises EngineStopped without one."""
        return self._spark()

    # ---- queries

    def check(self, sql: str, *, streams: Mapping[str, Stream] | None = None) -> BoundQuery:
        """Return the bound query of a text, which may name only `streams` if given; raises WeftError if invalid."""
        declared = self.declared_streams()
        return check_types(bind(sql, declared if streams is None else streams), declared, self._spark)

    def create(self, queries: Sequence[tuple[str | None, BoundQuery]], *, sink: SinkFor = no_sink) -> list[Query]:
        """Create queries, (name or None, checked query), with their sinks in one changelog: all or none."""
        named = [(name if name is None else check_name("query", name), bound) for name, bound in queries]
        request = create_queries(self, named, sink)
        return [Query(self, query, name, request) for query, name, _ in request.created]

    def drop(self, queries: Sequence[Query]) -> Callable[[float | None], bool]:
        """Drop queries in one changelog; the returned function waits until the changelog is in effect."""
        return self.core.submit(drop=[query.id for query in queries]).done.wait

    def set_aside(self, query: QueryId, reason: str) -> None:
        """End a query from the next batch on, as failed, with a reason."""
        self.core.set_aside(query, self.next_batch, reason)

    def find_query(self, name: str) -> Query | None:
        """Return the live or pending query of a name, else the latest query that had it."""
        query = find_query(self.core, name)
        return None if query is None else self.query_by_id(query)

    def query_by_id(self, query: QueryId) -> Query:
        """Return the handle of a query that is on record; raises UnknownQuery."""
        return Query(self, query, self.core.roster.name_of(query), None)

    def queries(self) -> list[Query]:
        """Return the handles of the live and pending queries."""
        return [Query(self, query, name, None) for name, query in self.names().items()]

    def query_of(self, record: QueryRecord) -> Query:
        """Return the handle of a query whose record is known, which saves looking it up if the query has ended."""
        return Query(self, record.id, record.name, None, ended=None if record.ended is None else record)

    # ---- streams

    def add_stream(self, stream: Stream) -> None:
        """Declare a stream; it is in the plan from the next batch on."""
        self.core.add_stream(stream)

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        """Remove a stream, and with `cascade` the queries that read it; raises StreamInUse while a batch runs."""
        if cascade:
            self.core.submit(drop=list(self.core.readers_of(name)))
        self.core.drop_stream(name)

    def set_watermark(self, stream: str, time: str | datetime) -> None:
        """Set the watermark of a stream back, from the next boundary on."""
        self.core.set_watermark(stream, parse_time(time))
        _log.warning('the watermark of stream "%s" is set back to %s', stream, time, extra={"stream": stream})


def _refuse_spark() -> NoReturn:
    raise EngineStopped(
        "this query has expressions that only Spark computes, and no engine is running",
        hint="Start one with: weft serve --config weft.toml. Then ask again.",
    )
