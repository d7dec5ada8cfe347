"""Responses of the service as JSON-ready values, in the shapes of docs/reference/rest.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from weft.engine import Query
from weft.engine.views.plan_graph import NodeKind, PlanNode, query_node
from weft.engine.views.what_if import WhatIf
from weft.errors import WeftError
from weft.plan.changelog import QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.slots import slot_numbers
from weft.plan.stream import FileSource, Stream
from weft.plan.time import time_text
from weft.service.http import shapes
from weft.service.tenancy.messages import query_error, sink_error
from weft.service.tenancy.plan_views import TenantGraph
from weft.service.tenancy.summaries import Summaries, query_figures


def iso(micros: int | None) -> str | None:
    """Return microseconds since 1970 as ISO 8601 text."""
    return None if micros is None else time_text(micros)


def result_columns(query: BoundQuery) -> list[shapes.Column]:
    """Return the columns of a query's result; the type is empty if only Spark knows it."""
    return [
        {"name": output.name, "type": output.type.ddl() if output.type is not None else ""} for output in query.outputs
    ]


class Views(Summaries):
    """Responses for one tenant: queries of other tenants are counted, but their names and texts are not shown."""

    # ---- streams

    def stream(self, stream: Stream) -> shapes.Stream:
        """Return a stream as the API has it."""
        seen = self._observer.stream(stream.name)
        watermark = self._catalog.watermarks().get(stream.name)
        return {
            "name": stream.name,
            "columns": [{"name": field.name, "type": field.type.ddl()} for field in stream.schema],
            "time": stream.time,
            "lateness_seconds": stream.lateness.total_seconds(),
            "format": stream.source.format.value if isinstance(stream.source, FileSource) else "spark",
            "rows": seen.rows,
            "rows_per_second": seen.rows_per_second,
            "late_rows": seen.late,
            "ahead_rows": seen.ahead,
            "missed_rows": seen.missed,
            "bad_files": seen.bad_files,
            "bad_rows": seen.bad_rows,
            "watermark": iso(watermark),
            "error": self._stream_error(stream.name),
            "notices": list(stream.notices),
        }

    def _stream_error(self, name: str) -> str:
        error = self._catalog.stream_errors().get(name)
        if error is None:
            return ""
        return error.message if self._tenant.admin else "its source cannot be read now"

    # ---- queries

    def queries(self, queries: Iterable[Query]) -> list[shapes.Query]:
        """Return queries for a list: ended ones without columns and notices.

        There may be thousands of ended queries, and their texts would have to be bound again.
        """
        shown = ((query, query.record) for query in queries)
        return [
            self._query(query, record, brief=record is not None and record.ended is not None) for query, record in shown
        ]

    def query(self, query: Query) -> shapes.Query:
        """Return a query as the API has it."""
        return self._query(query, query.record)

    def _query(self, query: Query, record: QueryRecord | None, *, brief: bool = False) -> shapes.Query:
        bound = None if brief else self._bound(query, record)
        streams = record.streams if record is not None else ()
        if not streams and bound is not None:  # a pending query, or a record of an older release
            streams = tuple(dict.fromkeys(relation.stream for relation in bound.relations))
        seen = self._observer.query(query.id)
        latency = query.deployment_latency
        return {
            "name": self._tenant.local(query.name),
            "tenant": self._tenants.owner(query.name),
            "sql": query.sql if record is None else record.sql,
            "state": query.state,
            "error": query_error(self._tenant, query.error),
            "notices": [] if bound is None else list(bound.notices),
            "columns": [] if bound is None else result_columns(bound),
            "streams": list(streams),
            "complete_from": None if record is None else iso(record.start),
            "deployment_ms": None if latency is None else round(latency.total_seconds() * 1000, 3),
            **query_figures(seen),
            "sink_state": query.sink_state,
            "sink_error": sink_error(self._tenant, query),
            "sink_gaps": [cast("shapes.Gap", gap) for gap in query.sink_gaps],
            "history": [
                {"at": point.at, "rows_per_second": point.rows_per_second, "latency_seconds": point.latency}
                for point in seen.points
            ],
        }

    def _bound(self, query: Query, record: QueryRecord | None) -> BoundQuery | None:
        """Return the bound form of a query, or None if this release rejects the text of a recorded query.

        The record must stay visible, above all the reason of a failure, and so must the other queries of a list.
        """
        try:
            return query.bound
        except WeftError:
            if record is None:
                raise
            return None

    # ---- the plan

    def plan(self) -> shapes.Plan:
        """Return the shared plan: all of it for an administrator, else the operators of the tenant's own queries."""
        sight = self._look()
        rates, nodes = self._observer.rates(), sight.graph.nodes
        return {
            "nodes": [self._operator(node, sight, rates) for node in nodes.values()],
            "edges": [(self._id(nodes[a]), self._id(nodes[b])) for a, b in sight.graph.edges],
            "text": self._catalog.explain() if self._tenant.admin else "",
        }

    def operators(self, query: Query) -> list[shapes.Operator]:
        """Return the operators that a query uses; none unless the query is live."""
        live = self._catalog.live_queries().get(query.id)
        if live is None:
            return []
        sight, rates = self._look(), self._observer.rates()
        used = [node for node in sight.graph.of(live.slot) if node.kind is not NodeKind.QUERY]
        return [self._operator(node, sight, rates) for node in used]

    def what_if(self, found: WhatIf) -> shapes.WhatIf:
        """Return what a query would add, as the API has it."""
        sight, rates = self._look(), self._observer.rates()
        sight = TenantGraph(sight.graph, {node.id: node.slots for node in found.nodes}, sight.names)
        return {
            "columns": result_columns(found.query),
            "notices": list(found.query.notices),
            "operators": [
                {**self._operator(node, sight, rates), "new": node.id in found.new, "takes": found.takes[node.id]}
                for node in found.nodes
            ],
            "rows_per_second": found.rows_per_second,
            "cost_alone": found.cost_alone,
            "cost_added": found.cost_added,
            "text": found.text,
        }

    def rates(self) -> dict[str, float]:
        """Return the rows per second through each operator that the tenant sees, without streams, by operator id."""
        sight, rates = self._look(), self._observer.rates()
        shown = [
            node for node in sight.graph.nodes.values() if self._discloses(node) and node.kind is not NodeKind.STREAM
        ]
        return {self._id(node): rates[node.id] for node in shown if node.id in rates}

    def _look(self) -> TenantGraph:
        return self._graphs.of(self._tenant, self._catalog.plan, self._catalog.declared_streams())

    def _operator(self, node: PlanNode, sight: TenantGraph, rates: Mapping[str, float]) -> shapes.Operator:
        users = [sight.names[slot] for slot in slot_numbers(sight.users(node)) if slot in sight.names]
        own = [self._tenant.local(name) for name in users if self._tenant.sees(name)]
        disclosed = self._discloses(node)
        title = self._tenant.local(node.title) if node.kind is NodeKind.QUERY else node.title
        return {
            "id": self._id(node),
            "kind": node.kind.value,
            # The title names the route of a store, and its choice depends on queries of other tenants.
            "title": title if disclosed else title.partition(" by ")[0],
            "detail": node.detail,
            "queries": own,
            "others": len(users) - len(own) if disclosed else 0,
            "rows_per_second": rates.get(node.id) if disclosed else None,
        }

    def _discloses(self, node: PlanNode) -> bool:
        return self._tenant.admin or node.plain

    def _id(self, node: PlanNode) -> str:
        if node.kind is NodeKind.QUERY:
            return query_node(self._tenant.local(node.title))
        if self._tenant.admin or node.kind in (NodeKind.STREAM, NodeKind.SELECTION):
            return node.id
        return f"{node.kind}:{self._tenant.hidden(node.id)}"
