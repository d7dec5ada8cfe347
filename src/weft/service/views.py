"""What the service answers, as JSON-ready values: the shapes of docs/service.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import weft
from weft.engine import Engine, Query
from weft.engine.explain import explain_plan
from weft.engine.graph import Graph, Kind, Node, plan_graph, query_node
from weft.engine.what_if import WhatIf
from weft.plan.changelog import QueryRecord, Slots
from weft.plan.query import BoundQuery
from weft.plan.stream import FileSource, Stream
from weft.service import shapes
from weft.service.observer import RECENT, BatchFigures, Observer, QueryFigures
from weft.service.tenants import Tenant, Tenants

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(micros: int | None) -> str | None:
    """Microseconds since 1970 as text."""
    if micros is None:
        return None
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None


def columns_of(query: BoundQuery) -> list[shapes.Column]:
    """The columns of a query's result; a type is empty where only Spark knows it."""
    return [
        {"name": output.name, "type": output.type.ddl() if output.type is not None else ""} for output in query.outputs
    ]


class Views:
    """Everything as one tenant may see it: others' queries are counted, not named."""

    def __init__(self, engine: Engine, observer: Observer, tenants: Tenants, *, tenant: Tenant) -> None:
        self._engine, self._observer = engine, observer
        self._tenants, self._tenant = tenants, tenant

    # ---- streams

    def stream(self, stream: Stream) -> shapes.Stream:
        """A stream."""
        seen = self._observer.stream(stream.name)
        watermark = self._engine.core.watermarks().get(stream.name)
        return {
            "name": stream.name,
            "columns": [{"name": field.name, "type": field.type.ddl()} for field in stream.schema],
            "time": stream.time,
            "lateness_seconds": stream.lateness.total_seconds(),
            "format": stream.source.format.value if isinstance(stream.source, FileSource) else "spark",
            "rows": seen.rows,
            "rows_per_second": seen.rows_per_second,
            "late_rows": seen.late,
            "bad_files": seen.bad_files,
            "watermark": iso(watermark),
        }

    # ---- queries

    def query(self, query: Query) -> shapes.Query:
        """A query."""
        core = self._engine.core
        with core.lock:
            record: QueryRecord | None = core.roster.records.get(query.id)
            bound = core.roster.bound_query(query.id)
        seen = self._observer.query(query.id)
        latency = query.deployment_latency
        return {
            "name": self._tenant.local(query.name),
            "tenant": self._tenants.owner(query.name),
            "sql": bound.sql,
            "state": query.state,
            "error": query.error,
            "notices": list(bound.notices),
            "columns": columns_of(bound),
            "streams": list(dict.fromkeys(relation.stream for relation in bound.relations)),
            "complete_from": None if record is None else iso(record.start),
            "deployment_ms": None if latency is None else round(latency.total_seconds() * 1000, 3),
            **query_figures(seen),
            "sink_error": self._engine.deliveries.error_of(query.id),
            "history": [
                {"at": point.at, "rows_per_second": point.rows_per_second, "latency_seconds": point.latency}
                for point in seen.points
            ],
        }

    # ---- the plan

    def plan(self) -> shapes.Plan:
        """All operators, and the queries that this tenant sees."""
        core = self._engine.core
        with core.lock:
            plan, streams, flows = core.plan, dict(core.streams), dict(core.planning.flows)
        graph = plan_graph(plan, streams)
        names = {live.slot: live.record.name for live in plan.queries}
        rates = self._observer.rates()
        shown = {
            node.id for node in graph.nodes.values() if node.kind is not Kind.QUERY or self._tenant.sees(node.title)
        }
        return {
            "nodes": [self._operator(graph.nodes[each], names, rates) for each in graph.nodes if each in shown],
            "edges": [(self._id(graph, a), self._id(graph, b)) for a, b in graph.edges if a in shown and b in shown],
            "text": explain_plan(plan, flows) if self._tenant.admin else "",
        }

    def operators(self, query: Query) -> list[shapes.Operator]:
        """What a live query uses."""
        core = self._engine.core
        with core.lock:
            plan, streams, live = core.plan, dict(core.streams), core.roster.live.get(query.id)
        if live is None:
            return []
        graph = plan_graph(plan, streams)
        names, rates = {each.slot: each.record.name for each in plan.queries}, self._observer.rates()
        used = [node for node in graph.of(live.slot) if node.kind is not Kind.QUERY]
        return [self._operator(node, names, rates) for node in used]

    def what_if(self, found: WhatIf) -> shapes.WhatIf:
        """What a query would add."""
        names = {live.slot: live.record.name for live in self._engine.core.plan.queries}
        rates = self._observer.rates()
        return {
            "columns": columns_of(found.query),
            "notices": list(found.query.notices),
            "operators": [
                {**self._operator(node, names, rates), "new": node.id in found.new, "takes": found.takes[node.id]}
                for node in found.nodes
            ],
            "rows_per_second": found.rows_per_second,
            "cost_alone": found.cost_alone,
            "cost_added": found.cost_added,
            "text": found.text,
        }

    def _operator(self, node: Node, names: Mapping[int, str], rates: Mapping[str, float]) -> shapes.Operator:
        users = [names[slot] for slot in _slots(node.slots) if slot in names]
        mine = [self._tenant.local(name) for name in users if self._tenant.sees(name)]
        own = node.kind is Kind.QUERY
        return {
            "id": query_node(self._tenant.local(node.title)) if own else node.id,
            "kind": node.kind.value,
            "title": self._tenant.local(node.title) if own else node.title,
            "detail": node.detail,
            "queries": mine,
            "others": len(users) - len(mine),
            "rows_per_second": rates.get(node.id),
        }

    def _id(self, graph: Graph, node: str) -> str:
        each = graph.nodes[node]
        return query_node(self._tenant.local(each.title)) if each.kind is Kind.QUERY else node

    # ---- how it goes

    def summary(self, state: str, error: str) -> shapes.Summary:
        """How it goes; `state` and `error` are those of the engine."""
        core, tenant = self._engine.core, self._tenant
        with core.lock:
            live = sum(tenant.sees(each.record.name) for each in core.roster.live.values())
            pending = sum(tenant.sees(name) for request in core.roster.pending for _, name, _ in request.created)
            failed = sum(bool(r.error) and tenant.sees(r.name) for r in core.roster.records.values())
            batch = core.next_batch - 1
        batches = self._observer.batches()
        recent = batches[-RECENT:]
        return {
            "state": state,
            "error": error,
            "version": weft.__version__,
            "tenant": tenant.name,
            "admin": tenant.admin,
            "batch": batch,
            "live": live,
            "pending": pending,
            "failed": failed,
            "rows_per_second": sum(each.rows_per_second for each in recent) / len(recent) if recent else 0.0,
            "latency_seconds": batches[-1].latency if batches else None,
            "limits": {
                "live_queries": tenant.limits.live_queries,
                "creates_per_minute": tenant.limits.creates_per_minute,
                "result_rows_per_second": tenant.limits.result_rows_per_second,
            },
        }

    def status(self, state: str, error: str) -> shapes.Status:
        """How it goes, with the last batches."""
        return {**self.summary(state, error), "history": [batch_figures(each) for each in self._observer.batches()]}

    def tick(self, state: str, error: str, queries: Iterable[Query]) -> shapes.Tick:
        """What has changed."""
        batches, rates = self._observer.batches(), self._observer.rates()
        streams = {stream.name: self._observer.stream(stream.name) for stream in self._engine.streams()}
        return {
            "status": self.summary(state, error),
            "batch": batch_figures(batches[-1]) if batches else None,
            "queries": {
                self._tenant.local(query.name): {
                    "state": query.state,
                    "error": query.error,
                    **query_figures(self._observer.query(query.id)),
                }
                for query in queries
            },
            "operators": {node: rate for node, rate in rates.items() if not node.startswith("stream:")},
            "streams": {
                name: {"rows": seen.rows, "rows_per_second": seen.rows_per_second} for name, seen in streams.items()
            },
        }


def query_figures(seen: QueryFigures) -> shapes.QueryFigures:
    """The figures of a query."""
    return {"rows": seen.rows, "rows_per_second": seen.rows_per_second, "latency_seconds": seen.latency}


def batch_figures(seen: BatchFigures) -> shapes.Batch:
    """A batch."""
    return {
        "batch": seen.batch,
        "at": seen.at,
        "rows": seen.rows,
        "seconds": seen.seconds,
        "phases": dict(seen.phases),
        "rows_per_second": seen.rows_per_second,
        "latency_seconds": seen.latency,
        "queries": seen.queries,
    }


def _slots(slots: Slots) -> Iterable[int]:
    mask, slot = int(slots), 0
    while mask:
        if mask & 1:
            yield slot
        mask >>= 1
        slot += 1
