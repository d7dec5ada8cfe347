"""What tenants may do: every request in one place, whoever carries it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from weft.engine import Engine, Query
from weft.engine.registry import check_name
from weft.engine.sinks import ParquetSink, parquet
from weft.engine.what_if import what_if
from weft.errors import InvalidSetting, UnknownQuery
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery
from weft.service import shapes
from weft.service.config import Config, StreamSpec
from weft.service.host import Host
from weft.service.observer import Observer
from weft.service.quotas import Quotas
from weft.service.rows import Cursor, RowReader, batches_with_rows
from weft.service.tenants import Tenant, Tenants, require_admin
from weft.service.views import Views, columns_of

_GIVEN = re.compile(r"q(\d+)")
"""Names of queries that were given none."""
_PATIENCE = 2.0
"""Seconds after which a page ends, with the rows it has: rare ones may be many batches apart."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query that somebody wants."""

    sql: str
    name: str | None = None
    deliver: bool = False


@dataclass(slots=True)
class Service:
    """The requests of docs/service.md on an engine; methods may be called from any thread, and may take a while."""

    config: Config
    host: Host
    tenants: Tenants
    quotas: Quotas = field(default_factory=Quotas)
    reader: RowReader = field(default_factory=RowReader)
    _creating: threading.Lock = field(default_factory=threading.Lock)
    _numbers: dict[str, count[int]] = field(default_factory=dict)

    @property
    def engine(self) -> Engine:
        """The engine; raises EngineStopped while there is none."""
        return self.host.engine

    @property
    def state(self) -> tuple[str, str]:
        """How the engine is, and why it does not run."""
        error = self.host.error
        return self.host.state.value, "" if error is None else error.message

    @property
    def observer(self) -> Observer:
        """What was seen of the engine."""
        return self.host.observer

    def views(self, tenant: Tenant) -> Views:
        """Everything as a tenant sees it."""
        return Views(self.engine, self.observer, self.tenants, tenant=tenant)

    # ---- streams

    def streams(self, tenant: Tenant) -> list[shapes.Stream]:
        """All streams: tenants share them."""
        views = self.views(tenant)
        return [views.stream(stream) for stream in self.engine.streams()]

    def add_stream(self, tenant: Tenant, spec: StreamSpec) -> shapes.Stream:
        """Declare a stream."""
        require_admin(tenant, "add streams")
        return self.views(tenant).stream(self.host.add_stream(spec))

    # ---- queries

    def queries(self, tenant: Tenant, state: str = "live") -> list[Query]:
        """A tenant's queries: live (and pending), ended, or all of them; oldest first."""
        core = self.engine.core
        chosen: list[QueryId] = []
        with core.lock:
            if state in ("ended", "all"):
                records = core.roster.records.values()
                chosen += [each.id for each in records if each.ended is not None and tenant.sees(each.name)]
            if state in ("live", "all"):
                chosen += [query for name, query in core.roster.names.items() if tenant.sees(name)]
        return [self.engine.query_by_id(query) for query in chosen]

    def query(self, tenant: Tenant, name: str) -> Query:
        """A tenant's query by its name: the live one, else the latest; raises UnknownQuery."""
        check_name("query", name)
        full = tenant.full(name)
        with self.engine.core.lock:
            found = self.engine.core.roster.find(full) if tenant.sees(full) else None
        if found is None:
            raise UnknownQuery(f'query "{name}" does not exist', hint="GET /v1/queries lists yours.")
        return self.engine.query_by_id(found)

    def create(self, tenant: Tenant, wanted: Sequence[Wanted]) -> list[Query]:
        """Create queries, all or none of them; raises what is wrong with them, and QuotaExceeded."""
        for each in wanted:
            if each.name is not None:
                check_name("query", each.name)
            if each.deliver and self.config.server.sinks is None:
                raise InvalidSetting("this service delivers to no files", hint="Its configuration has no server.sinks.")
        with self._creating:
            self.quotas.create(tenant, len(wanted), live=len(self.queries(tenant)))
            named = [(self._full_name(tenant, each.name), each.sql) for each in wanted]
            delivered = {name for (name, _), each in zip(named, wanted, strict=True) if each.deliver}
            return self.engine.create_many(
                named, sink=lambda query: self._sink(query) if query.name in delivered else None
            )

    def _sink(self, query: Query) -> ParquetSink:
        assert self.config.server.sinks is not None, "asked before"
        owner = self.tenants.owner(query.name)
        # Names have no slashes and do not begin with a dot: the path stays below the folder.
        return parquet(self.config.server.sinks / owner / f"{query.name}-{query.id}")

    def _full_name(self, tenant: Tenant, name: str | None) -> str:
        """In the engine; queries without a name are numbered, for each tenant by itself."""
        if name is not None:
            return tenant.full(name)
        if tenant.name not in self._numbers:
            with self.engine.core.lock:
                used = [record.name for record in self.engine.core.roster.records.values()]
                used += self.engine.core.roster.names
            locals_ = (tenant.local(each) for each in used if tenant.sees(each))
            given = [int(found[1]) for each in locals_ if (found := _GIVEN.fullmatch(each))]
            self._numbers[tenant.name] = count(max(given, default=0) + 1)
        taken = self.engine.core.roster.names
        return next(full for n in self._numbers[tenant.name] if (full := tenant.full(f"q{n}")) not in taken)

    def drop(self, tenant: Tenant, name: str) -> Query:
        """Drop a query; one that has ended stays as it is."""
        query = self.query(tenant, name)
        query.drop()
        return query

    def explain(self, tenant: Tenant, name: str) -> shapes.Explained:
        """How a query is run, and what it shares."""
        query = self.query(tenant, name)
        operators = self.views(tenant).operators(query)
        text = query.explain() if tenant.admin else _explain(query, operators)
        return {"text": text, "operators": operators}

    def check(self, sql: str) -> BoundQuery:
        """A text as the engine understands it; raises what is wrong with it."""
        return self.engine.check(sql)

    def what_if(self, tenant: Tenant, sql: str) -> shapes.WhatIf:
        """What creating a query would add."""
        return self.views(tenant).what_if(what_if(self.engine.core, self.check(sql)))

    # ---- rows

    def page(self, tenant: Tenant, name: str, *, after: Cursor, limit: int) -> tuple[shapes.Page, list[str]]:
        """A page of committed rows; the rows themselves are not in it but beside it, as JSON texts."""
        query = self.query(tenant, name)
        self.quotas.check_rows(tenant)
        state = query.state
        batches, following = batches_with_rows(self.engine.core, query, after)
        rows, cursor, deadline = list[str](), after, time.monotonic() + _PATIENCE
        for batch in batches:
            skip = after.skip_in(batch)
            texts = self.reader.batch(query, batch).texts[skip:]
            taken = texts[: limit - len(rows)]
            rows += taken
            cursor = Cursor(batch + 1) if len(taken) == len(texts) else Cursor(batch, skip + len(taken))
            if len(rows) >= limit or time.monotonic() > deadline:
                break
        else:
            cursor = max(cursor, Cursor(following))
        self.quotas.give_rows(tenant, len(rows))
        bound = self.engine.core.roster.bound_query(query.id)
        more = cursor < Cursor(following) and bool(batches) and cursor.batch <= batches[-1]
        page: shapes.Page = {
            "columns": columns_of(bound),
            "rows": [],
            "cursor": str(cursor),
            "more": more,
            "state": state,
            "error": query.error,
        }
        return page, rows


def _explain(query: Query, operators: Sequence[shapes.Operator]) -> str:
    """For a tenant, who must not see the names of others' queries."""
    lines = [f"query {query.state}", f"  {' '.join(query.sql.split())}"]
    for each in operators:
        mine, others = len(each["queries"]) - 1, each["others"]
        shared = [f"{mine} of yours"] * (mine > 0) + [f"{others} of others"] * (others > 0)
        lines.append(f"  {each['kind']} {each['title']}: {each['detail']}")
        lines.append(f"    shared with {' and '.join(shared) or 'nobody'}")
    return "\n".join(lines)
