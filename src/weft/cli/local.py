"""A state directory that no engine is working on: what a service would answer, as far as it goes without Spark.

Queries created and streams declared here are durable, and in effect from the next batch an engine runs on the path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn, cast

from weft.engine import Engine
from weft.engine import Query as Handle
from weft.engine.core import Core
from weft.engine.inputs.declare import declare_stream, files, parse_ahead
from weft.engine.inputs.set_watermark import parse_time
from weft.engine.inputs.stream_store import check_name
from weft.engine.queries.analysis import check_types
from weft.engine.results.leases import kept_from
from weft.engine.sinks.deliveries import Deliveries
from weft.engine.sinks.sinks import Sink
from weft.errors import DuplicateStream, EngineStopped, InvalidSetting, InvalidStream, UnknownStream, WeftError
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream as Declared
from weft.service.client import Event
from weft.service.config import Config, EngineSection
from weft.service.events.rows import LOOK_AHEAD, Cursor, batches_with_rows, farther, parse_cursor
from weft.service.host import EngineHost
from weft.service.observer import Observer, QueryFigures, StreamFigures
from weft.service.service import Service, Wanted
from weft.service.tenancy.tenants import EVERYBODY, Tenants
from weft.service.tenancy.views import Views, columns_of
from weft.spark.job_pools import READ_LIMIT
from weft.sql import bind, parse_duration
from weft.storage.directory import Directory, state_path
from weft.storage.ended_queries import number_of

if TYPE_CHECKING:
    from weft.service.client import NewQuery, NewStream
    from weft.service.http.shapes import Explained, Page, Plan, Query, Stream, Tick, WhatIf

_PAGE_ROWS = 1000


class _NoSpark:
    """Stands where Spark would: whatever needs it ends here."""

    def __getattr__(self, name: str) -> NoReturn:
        raise EngineStopped(
            "this query has expressions that only Spark computes, and no engine is running",
            hint="Start one with: weft serve --config weft.toml. Then ask again.",
        )


class _IdleEngine:
    """As much of an engine as a service needs, without Spark and without batches."""

    running = False
    read_limit = READ_LIMIT

    def __init__(self, core: Core) -> None:
        self.core = core
        self.spark = _NoSpark()
        self.deliveries = Deliveries(cast("Engine", self))  # none of them runs here

    def streams(self) -> tuple[Declared, ...]:
        return tuple(self.core.streams.values())

    def stream_errors(self) -> dict[str, WeftError]:
        return {}

    def check(self, sql: str, *, streams: Mapping[str, Declared] | None = None) -> BoundQuery:
        return check_types(bind(sql, self.core.streams if streams is None else streams), self.core.streams, self.spark)

    def create_checked(
        self, queries: Sequence[tuple[str, BoundQuery]], *, sink: Callable[[Handle], Sink | None]
    ) -> list[Handle]:
        # A path has no folder for sinks (`Service.create` refuses to deliver), so there are none to ask `sink` for.
        request = self.core.submit(create=[(check_name("query", name), query) for name, query in queries])
        return [self.query_by_id(query) for query, _, _ in request.created]

    def set_watermark(self, stream: str, time: str) -> None:
        self.core.set_watermark(stream, parse_time(time))

    def query_by_id(self, query: QueryId) -> Handle:
        return Handle(cast("Engine", self), query, self.core.roster.name_of(query), None)


class _Kept(Observer):
    """Figures of the batches that are kept: nobody has followed the engine."""

    def query(self, query: QueryId) -> QueryFigures:
        return QueryFigures(rows=None)

    def stream(self, name: str) -> StreamFigures:
        results = self._engine.core.inventory.results
        seen = [totals for manifest in results for stream, totals in manifest.streams if stream == name]
        rows, late = sum(totals.rows for totals in seen), sum(totals.late for totals in seen)
        ahead, bad_rows = sum(totals.ahead for totals in seen), sum(totals.bad_rows for totals in seen)
        missed, bad = sum(totals.missed for totals in seen), sum(len(totals.bad_files) for totals in seen)
        return StreamFigures(rows, 0.0, late, bad, ahead, missed, bad_rows)


class Local:
    """The state directory at a path, held until `close`; raises StateLocked if an engine is working on it."""

    is_here = True

    def __init__(self, path: Path) -> None:
        self._path = state_path(path)
        # Looking at a path that does not exist must not make it one.
        self._opened = _open(path) if (path / "format.json").exists() else None

    def close(self) -> None:
        """Give the directory up."""
        if self._opened is not None:
            self._opened.engine.core.directory.close()

    @property
    def _service(self) -> Service:
        if self._opened is None:
            raise InvalidSetting(
                f'there is no state directory at "{self._path}"',
                hint="Check the path. An engine makes one, and so does: weft stream add.",
            )
        return self._opened

    @property
    def _views(self) -> Views:
        return self._service.views(EVERYBODY)

    # ---- queries

    def queries(self, state: str = "live") -> list[Query]:
        """Queries that are "live", "ended", or "all"."""
        found, after = list["Query"](), 0
        while page := self._service.queries(EVERYBODY, state, after=after):
            found += self._views.queries(page)
            after = number_of(page[-1].id)
        return found

    def query(self, name: str) -> Query:
        """The query of this name."""
        return self._query(self._service.query(EVERYBODY, name))

    def create(self, sql: str, *, name: str | None = None, deliver: bool = False) -> Query:
        """Create a query."""
        return self._create([Wanted(sql, name, deliver)])[0]

    def create_many(self, queries: Sequence[NewQuery]) -> list[Query]:
        """Create queries together, all or nothing."""
        return self._create([Wanted(each["sql"], each.get("name")) for each in queries])

    def drop(self, name: str) -> Query:
        """End a query; one that has ended stays as it is."""
        return self._query(self._service.drop(EVERYBODY, name))

    def resume_sink(self, name: str) -> Query:
        """Let a query's sink that has failed go on, when an engine runs again."""
        return self._query(self._service.resume_sink(EVERYBODY, name))

    def explain(self, name: str) -> Explained:
        """A query's part of the shared plan."""
        return self._service.explain(EVERYBODY, name)

    def what_if(self, sql: str) -> WhatIf:
        """What creating a query would add; nothing is created."""
        return self._service.what_if(EVERYBODY, sql)

    def _create(self, wanted: Sequence[Wanted]) -> list[Query]:
        return [self._query(query) for query in self._service.create(EVERYBODY, wanted)]

    def _query(self, query: Handle) -> Query:
        return self._views.query(query)

    # ---- rows

    def results(self, name: str, *, after: str = "", limit: int | None = None) -> Page:
        """Committed rows after a cursor, the oldest first."""
        page, rows = self._service.page(EVERYBODY, name, after=self._cursor(after), limit=limit or _PAGE_ROWS)
        return {**page, "rows": [json.loads(row) for row in rows]}

    def follow(self, name: str, *, after: str = "") -> Iterator[Event]:
        """Committed rows; there will not be others."""
        service, query = self._service, self._service.query(EVERYBODY, name)
        if after == "now":
            raise EngineStopped(
                f'no engine is working on "{self._path}", so there will be no new rows',
                hint="--from start shows those that are committed.",
            )
        cursor, core = self._cursor(after), service.engine.core
        yield Event("columns", columns_of(core.roster.bound_query(query.id)))
        more, look = True, LOOK_AHEAD
        while more:
            ahead = batches_with_rows(core, query, cursor, look)
            for batch in ahead.batches:
                at = Cursor(batch, cursor.skip_in(batch))
                while at.batch == batch:
                    found = service.reader.rows(query, at)
                    at = found.behind
                    yield Event("rows", {"batch": batch, "rows": [json.loads(text) for text in found.texts]}, str(at))
            cursor, more, look = Cursor(ahead.following), ahead.more, farther(look)
        reason = query.error or ("no engine is running, nothing more will come" if query.state == "live" else "")
        yield Event("end", {"state": query.state, "error": reason})

    def _cursor(self, text: str) -> Cursor:
        """A cursor, or the oldest row that is kept."""
        return parse_cursor(text) if text else Cursor(kept_from(self._service.engine.core))

    # ---- streams and the plan

    def streams(self) -> list[Stream]:
        """All declared streams."""
        return self._service.streams(EVERYBODY)

    def add_stream(self, stream: NewStream) -> Stream:
        """Declare a stream of files; makes the state directory if there is none."""
        name = check_name("stream", stream["name"])
        if "path" not in stream:
            raise InvalidStream(f'stream "{name}" has no path', hint="Say where its files are: --path.")
        if self._opened is not None and name in self._opened.engine.core.streams:
            raise DuplicateStream(f'stream "{name}" exists already', hint="Choose another name.")
        source = files(
            stream["path"], format=stream["format"], schema=stream.get("schema"), options=stream.get("options")
        )
        lateness = parse_duration(stream.get("lateness", "0 seconds"))
        ahead = parse_ahead(stream.get("max_ahead", ""))
        declared = declare_stream(
            name, source, time=stream["time"], lateness=lateness, retain=None, existing=None, max_ahead=ahead
        )
        if self._opened is None:
            self._opened = _open(self._path)
        self._opened.engine.core.add_stream(declared)
        return self._views.stream(declared)

    def drop_stream(self, name: str, *, cascade: bool = False) -> Stream:
        """Remove a stream, with `cascade` also the queries that read it."""
        core = self._service.engine.core
        known = core.streams.get(name)
        if known is None:
            raise UnknownStream(f'stream "{name}" does not exist')
        before = self._views.stream(known)
        if cascade:
            core.submit(drop=list(core.readers_of(name)))
        core.drop_stream(name)
        return before

    def set_watermark(self, stream: str, time: str) -> Stream:
        """Set a stream's watermark back."""
        return self._service.set_watermark(EVERYBODY, stream, time)

    def plan(self) -> Plan:
        """The shared plan."""
        return self._views.plan()

    def ticks(self) -> Iterator[Tick]:
        """Nothing changes where no engine is working."""
        raise EngineStopped(
            f'no engine is working on "{self._path}"', hint="Start one with: weft serve --config weft.toml."
        )


def _open(path: Path) -> Service:
    """The service of a state directory, without an engine behind it."""
    try:
        directory = Directory.open(path)
    except PermissionError as error:
        raise InvalidSetting(f'state directory "{path}" cannot be opened', detail=f"{error}.") from error
    try:
        engine = cast("Engine", _IdleEngine(Core(directory)))
        engine.deliveries.remember()
    except BaseException:
        directory.close()
        raise
    config = Config(engine=EngineSection(path=path))
    host = cast("EngineHost", SimpleNamespace(engine=engine, observer=_Kept(engine)))
    return Service(config, host, Tenants({}, ()))
