"""Requests to a state directory on which no engine works: what a service answers, as far as possible without Spark.

Queries and streams that are created here are durable, and in effect from the next batch that an engine runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.engine import Query as Handle
from weft.engine.catalog import Catalog
from weft.engine.inputs.declare import declare_stream, files, parse_ahead
from weft.engine.inputs.stream_store import check_name
from weft.errors import DuplicateStream, EngineStopped, InvalidSetting, InvalidStream
from weft.plan.changelog import QueryId
from weft.plan.stream import Stream as Declared
from weft.service.client import Event
from weft.service.config import Config, EngineSection, StreamSpec
from weft.service.events.rows import LOOK_AHEAD, Cursor, batches_with_rows, farther, parse_cursor
from weft.service.health import Standing, State
from weft.service.observer import Observer, QueryFigures, StreamFigures
from weft.service.service import QuerySpec, Service
from weft.service.tenancy.tenants import EVERYBODY, Tenants
from weft.service.tenancy.views import Views, result_columns
from weft.sql import parse_duration
from weft.storage.directory import state_path
from weft.storage.ended_queries import query_number

if TYPE_CHECKING:
    from weft.service.client import NewQuery, NewStream
    from weft.service.http.shapes import Explained, Page, Plan, Query, Stream, Tick, WhatIf

_PAGE_ROWS = 1000


class _KeptFigures(Observer):
    """Figures from the batches whose results are kept, since no observer has followed the engine."""

    def query(self, query: QueryId) -> QueryFigures:
        return QueryFigures(rows=None)

    def stream(self, name: str) -> StreamFigures:
        with (commits := self._catalog.commits_from(self._catalog.first_kept_batch)).lease:
            totals = [total for manifest in commits.manifests for stream, total in manifest.streams if stream == name]
        return StreamFigures(
            rows=sum(total.rows for total in totals),
            rows_per_second=0.0,
            late=sum(total.late for total in totals),
            bad_files=sum(len(total.bad_files) for total in totals),
            ahead=sum(total.ahead for total in totals),
            missed=sum(total.missed for total in totals),
            bad_rows=sum(total.bad_rows for total in totals),
        )


class _NoEngine:
    """The host of a service on whose state directory no engine works."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.observer: Observer = _KeptFigures(catalog, summaries=tuple)
        self.on_batch: Callable[[], None] = lambda: None
        self.standing = Standing(State.STOPPING)

    def add_stream(self, spec: StreamSpec) -> Declared:
        stream = _declare(spec)
        self.catalog.add_stream(stream)
        return stream

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        self.catalog.drop_stream(name, cascade=cascade)

    def start(self) -> None:
        """Do nothing: no batch is run."""

    def stop(self) -> None:
        self.catalog.close()


class Local:
    """The state directory at a path, locked until `close`. Raises StateLocked if an engine works on it."""

    is_here = True

    def __init__(self, path: Path) -> None:
        self._path = state_path(path)
        # Inspecting a path must not create a state directory.
        self._opened = _open(path) if (path / "format.json").exists() else None

    def close(self) -> None:
        """Release the state directory."""
        if self._opened is not None:
            self._opened.catalog.close()

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
        """Return the queries that are "live", "ended", or "all"."""
        queries, after = list["Query"](), 0
        while page := self._service.queries(EVERYBODY, state, after=after):
            queries += self._views.queries(page)
            after = query_number(page[-1].id)
        return queries

    def query(self, name: str) -> Query:
        """Return the query of this name."""
        return self._query(self._service.query(EVERYBODY, name))

    def create(self, sql: str, *, name: str | None = None, deliver: bool = False) -> Query:
        """Create a query."""
        return self._create([QuerySpec(sql, name, deliver)])[0]

    def create_many(self, queries: Sequence[NewQuery]) -> list[Query]:
        """Create queries together, all or none."""
        return self._create([QuerySpec(query["sql"], query.get("name")) for query in queries])

    def drop(self, name: str) -> Query:
        """End a query. A query that has ended is not changed."""
        return self._query(self._service.drop(EVERYBODY, name))

    def resume_sink(self, name: str) -> Query:
        """Let a query's failed sink continue when an engine runs again."""
        return self._query(self._service.resume_sink(EVERYBODY, name))

    def explain(self, name: str) -> Explained:
        """Return a query's part of the shared plan."""
        return self._service.explain(EVERYBODY, name)

    def what_if(self, sql: str) -> WhatIf:
        """Return what creating a query would add to the shared plan, without creating it."""
        return self._service.what_if(EVERYBODY, sql)

    def _create(self, wanted: Sequence[QuerySpec]) -> list[Query]:
        return [self._query(query) for query in self._service.create(EVERYBODY, wanted)]

    def _query(self, query: Handle) -> Query:
        return self._views.query(query)

    # ---- rows

    def results(self, name: str, *, after: str = "", limit: int | None = None) -> Page:
        """Return committed rows after a cursor, the oldest first."""
        page, rows = self._service.page(EVERYBODY, name, after=self._cursor(after), limit=limit or _PAGE_ROWS)
        return {**page, "rows": [json.loads(row) for row in rows]}

    def follow(self, name: str, *, after: str = "") -> Iterator[Event]:
        """Yield events with the committed rows, then "end": without an engine no more rows come."""
        service, query = self._service, self._service.query(EVERYBODY, name)
        if after == "now":
            raise EngineStopped(
                f'no engine is working on "{self._path}", so there will be no new rows',
                hint="--from start shows those that are committed.",
            )
        cursor = self._cursor(after)
        yield Event("columns", result_columns(query.bound))
        more, look_ahead = True, LOOK_AHEAD
        while more:
            ahead = batches_with_rows(service.catalog, query, cursor, look_ahead)
            for batch in ahead.batches:
                at = Cursor(batch, cursor.skip_in(batch))
                while at.batch == batch:
                    piece = service.reader.rows(query, at)
                    at = piece.behind
                    yield Event("rows", {"batch": batch, "rows": [json.loads(text) for text in piece.texts]}, str(at))
            cursor, more, look_ahead = Cursor(ahead.following), ahead.more, farther(look_ahead)
        reason = query.error or ("no engine is running, nothing more will come" if query.state == "live" else "")
        yield Event("end", {"state": query.state, "error": reason})

    def _cursor(self, text: str) -> Cursor:
        """Return the cursor of a text, or the cursor before the oldest kept row if the text is empty."""
        return parse_cursor(text) if text else Cursor(self._service.catalog.first_kept_batch)

    # ---- streams and the plan

    def streams(self) -> list[Stream]:
        """Return all declared streams."""
        return self._service.streams(EVERYBODY)

    def add_stream(self, stream: NewStream) -> Stream:
        """Declare a stream of files. Creates the state directory if necessary."""
        name = check_name("stream", stream["name"])
        if self._opened is not None and name in self._opened.catalog.declared_streams():
            raise DuplicateStream(f'stream "{name}" exists already', hint="Choose another name.")
        declared = _declare(StreamSpec.model_validate(stream))
        if self._opened is None:
            self._opened = _open(self._path)
        self._opened.catalog.add_stream(declared)
        return self._views.stream(declared)

    def drop_stream(self, name: str, *, cascade: bool = False) -> Stream:
        """Remove a stream, and with `cascade` the queries that read it."""
        return self._service.drop_stream(EVERYBODY, name, cascade=cascade)

    def set_watermark(self, stream: str, time: str) -> Stream:
        """Set the watermark of a stream back."""
        return self._service.set_watermark(EVERYBODY, stream, time)

    def plan(self) -> Plan:
        """Return the shared plan."""
        return self._views.plan()

    def ticks(self) -> Iterator[Tick]:
        """Raise EngineStopped: without an engine nothing changes."""
        raise EngineStopped(
            f'no engine is working on "{self._path}"', hint="Start one with: weft serve --config weft.toml."
        )


def _declare(spec: StreamSpec) -> Declared:
    """Return the stream of a specification, which must name files that weft decodes itself."""
    if spec.path is None:
        raise InvalidStream(f'stream "{spec.name}" has no path', hint="Say where its files are: --path.")
    return declare_stream(
        spec.name,
        files(spec.path, format=spec.format, schema=spec.schema_, options=spec.options),
        time=spec.time,
        lateness=parse_duration(spec.lateness),
        retain=None,
        existing=None,
        max_ahead=parse_ahead(spec.max_ahead),
    )


def _open(path: Path) -> Service:
    """Return a service on a state directory, without an engine."""
    try:
        catalog = Catalog.open(path)
    except PermissionError as error:
        raise InvalidSetting(f'state directory "{path}" cannot be opened', detail=f"{error}.") from error
    return Service(Config(engine=EngineSection(path=path)), _NoEngine(catalog), Tenants({}, ()))
