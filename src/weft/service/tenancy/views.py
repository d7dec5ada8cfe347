"""What the service answers, as JSON-ready values: the shapes of docs/reference/rest.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from weft.engine import Query
from weft.engine.queries.look import bound_of
from weft.engine.views.explain import explain_plan
from weft.engine.views.graph import Kind, Node, query_node
from weft.engine.views.what_if import WhatIf
from weft.errors import WeftError
from weft.plan.changelog import QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedPlan
from weft.plan.slots import Slots
from weft.plan.stream import FileSource, Stream
from weft.plan.time import time_text
from weft.service.http import shapes
from weft.service.tenancy.messages import query_error, sink_error
from weft.service.tenancy.plan_views import Sight
from weft.service.tenancy.summaries import Summaries, query_figures


def iso(micros: int | None) -> str | None:
    """Microseconds since 1970 as text."""
    return None if micros is None else time_text(micros)


def columns_of(query: BoundQuery) -> list[shapes.Column]:
    """The columns of a query's result; a type is empty where only Spark knows it."""
    return [
        {"name": output.name, "type": output.type.ddl() if output.type is not None else ""} for output in query.outputs
    ]


class Views(Summaries):
    """Everything as one tenant may see it: others' queries are counted, not named, and nothing shows what they ask."""

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
            "ahead_rows": seen.ahead,
            "missed_rows": seen.missed,
            "bad_files": seen.bad_files,
            "bad_rows": seen.bad_rows,
            "watermark": iso(watermark),
            "error": self._stream_error(stream.name),
            "notices": list(stream.notices),
        }

    def _stream_error(self, name: str) -> str:
        error = self._engine.stream_errors().get(name)
        if error is None:
            return ""
        return error.message if self._tenant.admin else "its source cannot be read now"

    # ---- queries

    def queries(self, queries: Iterable[Query]) -> list[shapes.Query]:
        """Queries as a list has them: those that have ended without their columns and notices, for which their texts
        would have to be bound again, and there may be thousands."""
        shown = ((query, query.record) for query in queries)
        return [
            self._query(query, record, brief=record is not None and record.ended is not None) for query, record in shown
        ]

    def query(self, query: Query) -> shapes.Query:
        """A query."""
        return self._query(query, query.record)

    def _query(self, query: Query, record: QueryRecord | None, *, brief: bool = False) -> shapes.Query:
        bound = None if brief else self._bound(query, record)
        streams = record.streams if record is not None else ()
        if not streams and bound is not None:  # it waits, or a release that did not note them wrote its record
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
            "columns": [] if bound is None else columns_of(bound),
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
        """The bound form of a query; None if this release does not take the text of one that is on record: what the
        record says of it, above all why it failed, is to be seen nevertheless, and so are the others beside it."""
        try:
            return bound_of(self._engine.core, query.id)
        except WeftError:
            if record is None:
                raise
            return None

    # ---- the plan

    def plan(self) -> shapes.Plan:
        """The operators and queries that this tenant sees: an administrator all, others those of their own queries."""
        plan, sight = self._look()
        rates, flows = self._observer.rates(), dict(self._engine.core.planning.flows)
        nodes = sight.graph.nodes
        return {
            "nodes": [self._operator(node, sight, rates) for node in nodes.values()],
            "edges": [(self._id(nodes[a]), self._id(nodes[b])) for a, b in sight.graph.edges],
            "text": explain_plan(plan, flows) if self._tenant.admin else "",
        }

    def operators(self, query: Query) -> list[shapes.Operator]:
        """What a live query uses."""
        with self._engine.core.lock:
            live = self._engine.core.roster.live.get(query.id)
        if live is None:
            return []
        (_, sight), rates = self._look(), self._observer.rates()
        used = [node for node in sight.graph.of(live.slot) if node.kind is not Kind.QUERY]
        return [self._operator(node, sight, rates) for node in used]

    def what_if(self, found: WhatIf) -> shapes.WhatIf:
        """What a query would add."""
        (_, sight), rates = self._look(), self._observer.rates()
        sight = Sight(sight.graph, {node.id: node.slots for node in found.nodes}, sight.names)
        return {
            "columns": columns_of(found.query),
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
        """Rows per second through the operators that this tenant sees, streams apart, by their ids."""
        (_, sight), rates = self._look(), self._observer.rates()
        shown = [node for node in sight.graph.nodes.values() if self._tells_rate(node) and node.kind is not Kind.STREAM]
        return {self._id(node): rates[node.id] for node in shown if node.id in rates}

    def _look(self) -> tuple[SharedPlan, Sight]:
        core = self._engine.core
        plan = core.plan
        with core.lock:
            streams = dict(core.streams)
        return plan, self._graphs.of(self._tenant, plan, streams)

    def _operator(self, node: Node, sight: Sight, rates: Mapping[str, float]) -> shapes.Operator:
        users = [sight.names[slot] for slot in _slots(sight.users(node)) if slot in sight.names]
        mine = [self._tenant.local(name) for name in users if self._tenant.sees(name)]
        told = self._tenant.admin or node.plain
        title = self._tenant.local(node.title) if node.kind is Kind.QUERY else node.title
        return {
            "id": self._id(node),
            "kind": node.kind.value,
            # By which of several keys rows are divided depends on others' queries.
            "title": title if told else title.partition(" by ")[0],
            "detail": node.detail,
            "queries": mine,
            "others": len(users) - len(mine) if told else 0,
            "rows_per_second": rates.get(node.id) if self._tells_rate(node) else None,
        }

    def _tells_rate(self, node: Node) -> bool:
        return self._tenant.admin or node.plain

    def _id(self, node: Node) -> str:
        if node.kind is Kind.QUERY:
            return query_node(self._tenant.local(node.title))
        if self._tenant.admin or node.kind in (Kind.STREAM, Kind.SELECTION):
            return node.id
        return f"{node.kind}:{self._tenant.hidden(node.id)}"


def _slots(slots: Slots) -> Iterable[int]:
    mask, slot = int(slots), 0
    while mask:
        if mask & 1:
            yield slot
        mask >>= 1
        slot += 1
