"""A state directory that no engine is working on: what a service would answer, as far as it goes without Spark.

Queries created and streams declared here are durable, and in effect from the next batch an engine runs on the path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn, cast

from weft.engine import Engine
from weft.engine import Query as Handle
from weft.engine.analysis import check_types
from weft.engine.core import Core
from weft.engine.deliveries import give_back
from weft.engine.registry import check_name
from weft.engine.sinks import Sink
from weft.engine.streams import declare_stream, files
from weft.errors import DuplicateStream, EngineStopped, InvalidSetting, InvalidStream
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream as Declared
from weft.service.client import Event
from weft.service.config import Config, EngineSection
from weft.service.host import EngineHost
from weft.service.observer import Observer, QueryFigures, StreamFigures
from weft.service.rows import Cursor, batches_with_rows, parse_cursor
from weft.service.service import Service, Wanted
from weft.service.tenants import EVERYBODY, Tenants
from weft.service.views import Views, columns_of
from weft.sql import bind, parse_duration
from weft.state.directory import Directory

if TYPE_CHECKING:
    from weft.service.client import NewQuery, NewStream
    from weft.service.shapes import Explained, Page, Plan, Query, Stream, Tick, WhatIf

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
    deliveries = SimpleNamespace(error_of=lambda _: "")

    def __init__(self, core: Core) -> None:
        self.core = core
        self.spark = _NoSpark()

    def streams(self) -> tuple[Declared, ...]:
        return tuple(self.core.streams.values())

    def check(self, sql: str) -> BoundQuery:
        return check_types(bind(sql, self.core.streams), self.core.streams, self.spark)

    def create_many(self, queries: Sequence[tuple[str, str]], *, sink: Callable[[Handle], Sink | None]) -> list[Handle]:
        # A path has no folder for sinks (`Service.create` refuses to deliver), so there are none to ask `sink` for.
        request = self.core.submit(create=[(check_name("query", name), self.check(sql)) for name, sql in queries])
        return [self.query_by_id(query) for query, _, _ in request.created]

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
        return StreamFigures(rows, 0.0, late, sum(len(totals.bad_files) for totals in seen))


class Local:
    """The state directory at a path, held until `close`; raises StateLocked if an engine is working on it."""

    is_here = True

    def __init__(self, path: Path) -> None:
        self._path = path
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
        return [self._query(query) for query in self._service.queries(EVERYBODY, state)]

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
        for batch in batches_with_rows(core, query, cursor)[0]:
            for behind, texts in service.reader.batch(query, batch).pieces(cursor.skip_in(batch)):
                yield Event("rows", {"batch": batch, "rows": [json.loads(text) for text in texts]}, str(behind))
        reason = query.error or ("no engine is running, nothing more will come" if query.state == "live" else "")
        yield Event("end", {"state": query.state, "error": reason})

    def _cursor(self, text: str) -> Cursor:
        """A cursor, or the oldest row that is kept."""
        core = self._service.engine.core
        kept = core.inventory.results
        return parse_cursor(text) if text else Cursor(kept[0].batch if kept else core.next_batch)

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
        declared = declare_stream(name, source, time=stream["time"], lateness=lateness, retain=None, existing=None)
        if self._opened is None:
            self._opened = _open(self._path)
        self._opened.engine.core.add_stream(declared)
        return self._views.stream(declared)

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
        core = Core(directory)
        give_back(core)
    except BaseException:
        directory.close()
        raise
    engine, config = cast("Engine", _IdleEngine(core)), Config(engine=EngineSection(path=path))
    host = cast("EngineHost", SimpleNamespace(engine=engine, observer=_Kept(engine)))
    return Service(config, host, Tenants({}, ()))
