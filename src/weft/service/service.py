"""The requests that tenants may make, independent of the protocol that carries them."""

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
"""Reasons for tenants who must not see details about the queries or files of others."""
LARGEST_PAGE = 1000
"""Default maximum length of a list with ended queries."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A query to create."""

    sql: str
    name: str | None = None
    deliver: bool = False


@dataclass(slots=True)
class Service:
    """The requests of docs/reference/rest.md to an engine. Methods may be called from any thread and may be slow."""

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
        """Return the state of the engine and why it does not run, for a tenant (None: anybody). Never waits."""
        standing = self.standing
        if standing.error is None:
            return standing.state.value, ""
        if tenant is not None and tenant.admin:
            return standing.state.value, standing.error.message
        return standing.state.value, _REASONS.get(standing.state, "")

    @property
    def standing(self) -> Standing:
        """The health of the engine; never waits."""
        return self.host.standing

    @property
    def observer(self) -> Observer:
        """The figures of the engine."""
        return self.host.observer

    def views(self, tenant: Tenant) -> Views:
        """Return the views of the engine for a tenant."""
        return Views(self.catalog, self.observer, self.tenants, tenant=tenant, graphs=self.graphs)

    # ---- streams

    def streams(self, tenant: Tenant) -> list[shapes.Stream]:
        """Return the streams that a tenant may read."""
        views = self.views(tenant)
        streams = self.catalog.declared_streams().values()
        return [views.stream(stream) for stream in streams if tenant.may_read(stream.name)]

    def add_stream(self, tenant: Tenant, spec: StreamSpec) -> shapes.Stream:
        """Declare a stream."""
        require_admin(tenant, "add streams")
        check_requested(spec, self.config.server, restricted=not self.tenants.open)
        return self.views(tenant).stream(self.host.add_stream(spec))

    def drop_stream(self, tenant: Tenant, name: str, *, cascade: bool) -> shapes.Stream:
        """Remove a stream, and with `cascade` the queries that read it. Return the stream as it was."""
        require_admin(tenant, "drop streams")
        stream = self.catalog.declared_streams().get(check_name("stream", name))
        if stream is None:
            raise UnknownStream(f'stream "{name}" does not exist', hint="GET /v1/streams lists them.")
        before = self.views(tenant).stream(stream)
        self.host.drop_stream(name, cascade=cascade)
        return before

    def set_watermark(self, tenant: Tenant, name: str, time: str) -> shapes.Stream:
        """Set the watermark of a stream back."""
        require_admin(tenant, "set watermarks back")
        self.catalog.set_watermark(name, time)
        return self.views(tenant).stream(self.catalog.declared_streams()[name])

    # ---- queries

    def queries(
        self, tenant: Tenant, state: str = "live", *, after: int = 0, limit: int | None = None, latest: bool = False
    ) -> list[Query]:
        """Return the live (and pending), ended, or all queries of a tenant after number `after`, oldest first.

        If ended queries are included, at most `limit` queries are returned (1000 by default), since there may be very
        many. With `latest`, these are the latest queries instead of the first.
        """
        catalog = self.catalog
        queries: dict[QueryId, Query] = {}
        if state in ("ended", "all"):
            limit = LARGEST_PAGE if limit is None else limit
            with_live = state == "all"
            records = catalog.records(tenant.prefix, after=after, limit=limit, live=with_live, latest=latest)
            queries = {record.id: catalog.query_of(record) for record in records}
        if state in ("live", "all"):
            queries = {query.id: query for query in catalog.queries() if tenant.sees(query.name)} | queries
        ordered = sorted((query for query in queries if query_number(query) > after), key=query_number)
        return [queries[query] for query in (ordered[-(limit or 0) :] if latest else ordered[:limit])]

    def query(self, tenant: Tenant, name: str) -> Query:
        """Return a tenant's query by name: the live one, else the latest that had the name. Raises UnknownQuery."""
        check_name("query", name)
        full = tenant.full(name)
        query = self.catalog.find_query(full) if tenant.sees(full) else None
        if query is None:
            raise UnknownQuery(f'query "{name}" does not exist', hint="GET /v1/queries lists yours.")
        return query

    def readable(self, tenant: Tenant, name: str) -> Query:
        """Like `query`, but raise UnknownStream if the tenant may no longer read a stream of the query."""
        query = self.query(tenant, name)
        record = query.record
        streams = () if record is None else record.streams
        if not streams:  # the query is pending, or a release that did not record streams created it
            streams = tuple(relation.stream for relation in query.bound.relations)
        for stream in streams:
            if not tenant.may_read(stream):
                raise UnknownStream(f'stream "{stream}" does not exist', hint="GET /v1/streams lists yours.")
        return query

    def create(self, tenant: Tenant, wanted: Sequence[QuerySpec]) -> list[Query]:
        """Create queries, all or none. Raises what is wrong with them, and QuotaExceeded.

        Texts are checked, by Spark if necessary, before the lock is taken, so no request waits for another's check.
        """
        for spec in wanted:
            if spec.name is not None:
                check_name("query", spec.name)
            if spec.deliver and self.config.server.sinks is None:
                raise InvalidSetting("this service delivers to no files", hint="Its configuration has no server.sinks.")
        self.budgets.check(tenant)
        # Before the texts are checked: a wrong text may cost Spark as much as a correct one.
        self.quotas.create(tenant, len(wanted), live=len(self.queries(tenant)))
        checked = [self._checked(tenant, spec.sql) for spec in wanted]
        with self._creating:
            # Again, because other requests may have created queries meanwhile.
            check_live(tenant, len(wanted), live=len(self.queries(tenant)))
            names = [self._names.full(self.catalog, tenant, spec.name) for spec in wanted]
            delivered = {name for name, spec in zip(names, wanted, strict=True) if spec.deliver}
            return self.catalog.create(
                list(zip(names, checked, strict=True)),
                sink=lambda query: self._sink(query) if query.name in delivered else None,
            )

    def _sink(self, query: Query) -> ParquetSink:
        assert self.config.server.sinks is not None, "asked before"
        owner = self.tenants.owner(query.name)
        # Names have no slashes and do not begin with a dot, so the path stays below the folder.
        return parquet(self.config.server.sinks / owner / f"{query.name}-{query.id}")

    def drop(self, tenant: Tenant, name: str) -> Query:
        """Drop a query. A query that has ended is not changed."""
        query = self.query(tenant, name)
        query.drop()
        return query

    def resume_sink(self, tenant: Tenant, name: str) -> Query:
        """Let a query's failed sink continue with the rows that are kept. The gap is recorded."""
        query = self.query(tenant, name)
        query.resume_sink()
        return query

    def explain(self, tenant: Tenant, name: str) -> shapes.Explained:
        """Return how a query is run and what it shares."""
        query = self.query(tenant, name)
        operators = self.views(tenant).operators(query)
        text = query.explain() if tenant.admin else _explain(query, operators)
        return {"text": text, "operators": operators}

    def check(self, tenant: Tenant, sql: str) -> BoundQuery:
        """Return the bound query of a text. Raises what is wrong with the text, and QuotaExceeded."""
        self.quotas.what_if(tenant)
        return self._checked(tenant, sql)

    def _checked(self, tenant: Tenant, sql: str) -> BoundQuery:
        """Return the bound query of a text over the streams that a tenant may read."""
        return self.catalog.check(sql, streams=tenant.granted(self.catalog.declared_streams()))

    def what_if(self, tenant: Tenant, sql: str) -> shapes.WhatIf:
        """Return what creating a query would add to the shared plan."""
        sees = None if tenant.admin else tenant.sees
        return self.views(tenant).what_if(self.catalog.what_if(self.check(tenant, sql), sees=sees))

    # ---- rows

    def page(self, tenant: Tenant, name: str, *, after: Cursor, limit: int) -> tuple[shapes.Page, list[str]]:
        """Return a page of committed rows whose list of rows is empty, and the rows as JSON texts."""
        query = self.readable(tenant, name)
        self.quotas.check_rows(tenant)
        state = query.state
        page_rows = read_page(self.catalog, self.reader, query, after, limit=limit)
        self.quotas.give_rows(tenant, len(page_rows.texts))
        bound = query.bound
        page: shapes.Page = {
            "columns": result_columns(bound),
            "rows": [],
            "cursor": str(page_rows.behind),
            "more": page_rows.more,
            "state": "failed" if page_rows.error else state,
            "error": query_error(tenant, page_rows.error or query.error),
        }
        return page, page_rows.texts


def _explain(query: Query, operators: Sequence[shapes.Operator]) -> str:
    """Return the explanation for a tenant, who must not see the names of other tenants' queries."""
    lines = [f"query {query.state}", f"  {' '.join(query.sql.split())}"]
    for operator in operators:
        own, others = len(operator["queries"]) - 1, operator["others"]
        shared = [f"{own} of yours"] * (own > 0) + [f"{others} of others"] * (others > 0)
        lines.append(f"  {operator['kind']} {operator['title']}: {operator['detail']}")
        lines.append(f"    shared with {' and '.join(shared) or 'nobody'}")
    return "\n".join(lines)
