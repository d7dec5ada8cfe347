"""What tenants may do: every request in one place, whoever carries it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.engine import Query
from weft.engine.catalog import Catalog
from weft.engine.inputs.stream_store import check_name
from weft.engine.sinks.sinks import ParquetSink, parquet
from weft.errors import InvalidSetting, UnknownQuery, UnknownStream
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery
from weft.service.config import Config, StreamSpec
from weft.service.events.rows import Cursor, RowReader
from weft.service.health import Standing, State
from weft.service.host import Host
from weft.service.http import shapes
from weft.service.observer import Observer
from weft.service.result_pages import read_page
from weft.service.streams import check_requested
from weft.service.tenancy.budgets import Budgets
from weft.service.tenancy.messages import query_error
from weft.service.tenancy.names import Names
from weft.service.tenancy.plan_views import GraphCache
from weft.service.tenancy.quotas import Quotas, check_live
from weft.service.tenancy.tenants import Tenant, Tenants, require_admin
from weft.service.tenancy.views import Views, result_columns
from weft.storage.ended_queries import query_number

_REASONS = {
    State.FAILING: "a batch has failed and is tried again",
    State.STUCK: "a batch takes longer than it may",
    State.FAILED: "the engine has failed",
}
"""For those who must not read what others' queries or files have to do with it."""
LARGEST_PAGE = 1000
"""Ended queries that are listed at once, unless told."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A query that somebody wants."""

    sql: str
    name: str | None = None
    deliver: bool = False


@dataclass(slots=True)
class Service:
    """The requests of docs/reference/rest.md on an engine. Methods may be called from any thread and may be slow."""

    config: Config
    host: Host
    tenants: Tenants
    quotas: Quotas = field(default_factory=Quotas)
    reader: RowReader = field(default_factory=RowReader)
    graphs: GraphCache = field(default_factory=GraphCache)
    budgets: Budgets = field(init=False)
    _creating: threading.Lock = field(default_factory=threading.Lock)
    _names: Names = field(default_factory=Names)

    def __post_init__(self) -> None:
        self.budgets = Budgets(self.host, self.tenants)

    @property
    def catalog(self) -> Catalog:
        """The catalog of the engine; raises EngineStopped while there is no engine."""
        return self.host.catalog

    def state(self, tenant: Tenant | None) -> tuple[str, str]:
        """How the engine is, and why it does not run, in words for a tenant (None: anybody); never waits."""
        standing = self.standing
        if standing.error is None:
            return standing.state.value, ""
        if tenant is not None and tenant.admin:
            return standing.state.value, standing.error.message
        return standing.state.value, _REASONS.get(standing.state, "")

    @property
    def standing(self) -> Standing:
        """How the engine is; never waits."""
        return self.host.standing

    @property
    def observer(self) -> Observer:
        """What was seen of the engine."""
        return self.host.observer

    def views(self, tenant: Tenant) -> Views:
        """Everything as a tenant sees it."""
        return Views(self.catalog, self.observer, self.tenants, tenant=tenant, graphs=self.graphs)

    # ---- streams

    def streams(self, tenant: Tenant) -> list[shapes.Stream]:
        """The streams that a tenant may read."""
        views = self.views(tenant)
        streams = self.catalog.declared_streams().values()
        return [views.stream(stream) for stream in streams if tenant.may_read(stream.name)]

    def add_stream(self, tenant: Tenant, spec: StreamSpec) -> shapes.Stream:
        """Declare a stream."""
        require_admin(tenant, "add streams")
        check_requested(spec, self.config.server, restricted=not self.tenants.open)
        return self.views(tenant).stream(self.host.add_stream(spec))

    def drop_stream(self, tenant: Tenant, name: str, *, cascade: bool) -> shapes.Stream:
        """Remove a stream, with `cascade` also the queries that read it; what it was."""
        require_admin(tenant, "drop streams")
        stream = self.catalog.declared_streams().get(check_name("stream", name))
        if stream is None:
            raise UnknownStream(f'stream "{name}" does not exist', hint="GET /v1/streams lists them.")
        before = self.views(tenant).stream(stream)
        self.host.drop_stream(name, cascade=cascade)
        return before

    def set_watermark(self, tenant: Tenant, name: str, time: str) -> shapes.Stream:
        """Set a stream's watermark back."""
        require_admin(tenant, "set watermarks back")
        self.catalog.set_watermark(name, time)
        return self.views(tenant).stream(self.catalog.declared_streams()[name])

    # ---- queries

    def queries(
        self, tenant: Tenant, state: str = "live", *, after: int = 0, limit: int | None = None, latest: bool = False
    ) -> list[Query]:
        """A tenant's queries: live (and pending), ended, or all of them; oldest first, from behind number `after` on.

        Of ended ones at most `limit`, or a thousand: there may be very many. `latest` gives the last of them.
        """
        catalog = self.catalog
        queries: dict[QueryId, Query] = {}
        if state in ("ended", "all"):
            limit = LARGEST_PAGE if limit is None else limit
            with_live = state == "all"
            records = catalog.records(tenant.prefix, after=after, limit=limit, live=with_live, latest=latest)
            queries = {record.id: catalog.query_of(record) for record in records}
        if state in ("live", "all"):
            ids = [query for name, query in catalog.names().items() if tenant.sees(name)]
            queries = {query: catalog.query_by_id(query) for query in ids} | queries
        ordered = sorted((query for query in queries if query_number(query) > after), key=query_number)
        return [queries[query] for query in (ordered[-(limit or 0) :] if latest else ordered[:limit])]

    def query(self, tenant: Tenant, name: str) -> Query:
        """A tenant's query by its name: the live one, else the latest; raises UnknownQuery."""
        check_name("query", name)
        full = tenant.full(name)
        query = self.catalog.find_query(full) if tenant.sees(full) else None
        if query is None:
            raise UnknownQuery(f'query "{name}" does not exist', hint="GET /v1/queries lists yours.")
        return query

    def readable(self, tenant: Tenant, name: str) -> Query:
        """A tenant's query whose rows it may read: grants may have been taken away since it was created."""
        query = self.query(tenant, name)
        record = query.record
        streams = () if record is None else record.streams
        if not streams:  # it waits, or a release that did not note them wrote its record
            streams = tuple(relation.stream for relation in query.bound.relations)
        for stream in streams:
            if not tenant.may_read(stream):
                raise UnknownStream(f'stream "{stream}" does not exist', hint="GET /v1/streams lists yours.")
        return query

    def create(self, tenant: Tenant, wanted: Sequence[QuerySpec]) -> list[Query]:
        """Create queries, all or none of them; raises what is wrong with them, and QuotaExceeded.

        Texts are checked, by Spark where it has to be, before any lock is taken: nobody waits for another's check.
        """
        for each in wanted:
            if each.name is not None:
                check_name("query", each.name)
            if each.deliver and self.config.server.sinks is None:
                raise InvalidSetting("this service delivers to no files", hint="Its configuration has no server.sinks.")
        self.budgets.check(tenant)
        # Before anything is checked: a text that is wrong may take as much of Spark as one that is right.
        self.quotas.create(tenant, len(wanted), live=len(self.queries(tenant)))
        checked = [self._checked(tenant, each.sql) for each in wanted]
        with self._creating:
            check_live(tenant, len(wanted), live=len(self.queries(tenant)))  # others may have come meanwhile
            names = [self._names.full(self.catalog, tenant, each.name) for each in wanted]
            delivered = {name for name, each in zip(names, wanted, strict=True) if each.deliver}
            return self.catalog.create(
                list(zip(names, checked, strict=True)),
                sink=lambda query: self._sink(query) if query.name in delivered else None,
            )

    def _sink(self, query: Query) -> ParquetSink:
        assert self.config.server.sinks is not None, "asked before"
        owner = self.tenants.owner(query.name)
        # Names have no slashes and do not begin with a dot: the path stays below the folder.
        return parquet(self.config.server.sinks / owner / f"{query.name}-{query.id}")

    def drop(self, tenant: Tenant, name: str) -> Query:
        """Drop a query; one that has ended stays as it is."""
        query = self.query(tenant, name)
        query.drop()
        return query

    def resume_sink(self, tenant: Tenant, name: str) -> Query:
        """Let a query's sink that has failed go on with the rows that are kept; the gap is noted."""
        query = self.query(tenant, name)
        query.resume_sink()
        return query

    def explain(self, tenant: Tenant, name: str) -> shapes.Explained:
        """How a query is run, and what it shares."""
        query = self.query(tenant, name)
        operators = self.views(tenant).operators(query)
        text = query.explain() if tenant.admin else _explain(query, operators)
        return {"text": text, "operators": operators}

    def check(self, tenant: Tenant, sql: str) -> BoundQuery:
        """A text as the engine understands it; raises what is wrong with it, and QuotaExceeded."""
        self.quotas.what_if(tenant)
        return self._checked(tenant, sql)

    def _checked(self, tenant: Tenant, sql: str) -> BoundQuery:
        """A text over the streams that are there for a tenant."""
        return self.catalog.check(sql, streams=tenant.granted(self.catalog.declared_streams()))

    def what_if(self, tenant: Tenant, sql: str) -> shapes.WhatIf:
        """What creating a query would add."""
        sees = None if tenant.admin else tenant.sees
        return self.views(tenant).what_if(self.catalog.what_if(self.check(tenant, sql), sees=sees))

    # ---- rows

    def page(self, tenant: Tenant, name: str, *, after: Cursor, limit: int) -> tuple[shapes.Page, list[str]]:
        """A page of committed rows; the rows themselves are not in it but beside it, as JSON texts."""
        query = self.readable(tenant, name)
        self.quotas.check_rows(tenant)
        state = query.state
        found = read_page(self.catalog, self.reader, query, after, limit=limit)
        self.quotas.give_rows(tenant, len(found.texts))
        bound = query.bound
        page: shapes.Page = {
            "columns": result_columns(bound),
            "rows": [],
            "cursor": str(found.behind),
            "more": found.more,
            "state": "failed" if found.error else state,
            "error": query_error(tenant, found.error or query.error),
        }
        return page, found.texts


def _explain(query: Query, operators: Sequence[shapes.Operator]) -> str:
    """For a tenant, who must not see the names of others' queries."""
    lines = [f"query {query.state}", f"  {' '.join(query.sql.split())}"]
    for each in operators:
        mine, others = len(each["queries"]) - 1, each["others"]
        shared = [f"{mine} of yours"] * (mine > 0) + [f"{others} of others"] * (others > 0)
        lines.append(f"  {each['kind']} {each['title']}: {each['detail']}")
        lines.append(f"    shared with {' and '.join(shared) or 'nobody'}")
    return "\n".join(lines)
