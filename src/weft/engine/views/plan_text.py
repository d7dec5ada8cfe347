"""The plan graph as text: every operator of the shared plan, or the operators of one query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import assert_never

from weft.engine.views.plan_graph import Graph, NodeKind, PlanNode, plan_graph
from weft.plan.changelog import LiveQuery, QueryRecord
from weft.plan.expression import to_sql
from weft.plan.query import BoundQuery, Relation
from weft.plan.shared import SharedPlan
from weft.plan.slots import Slots
from weft.plan.strategy import (
    EquiJoin,
    FactoredAggregate,
    ProbeAggregate,
    ProbeJoin,
    Selection,
    SessionAggregate,
    SessionJoin,
    SliceAggregate,
    Strategy,
)
from weft.plan.stream import Stream
from weft.plan.window import window_text

Flows = Mapping[str, tuple[int, int]]
"""For each probe step of the last batch: the combinations that came to it, and the combinations that it produced."""
_MANY = 8
"""A list of query names is cut after this many names."""
_EXPLAINED = (NodeKind.STORE, NodeKind.JOIN, NodeKind.AGGREGATE)
"""Streams and selections are named by the operators that read them."""


def explain_plan(plan: SharedPlan, streams: Mapping[str, Stream], flows: Flows | None = None) -> str:
    """Describe all operators of a plan, with the queries that they serve."""
    graph = plan_graph(plan, streams)
    labels, sources = _labels(graph), graph.sources()
    kinds = Counter(node.kind for node in graph.nodes.values())
    lines = [
        f"shared plan: {len(plan.queries)} queries, {kinds[NodeKind.STORE]} stores, {kinds[NodeKind.JOIN]} joins, "
        f"{kinds[NodeKind.AGGREGATE]} aggregates, query-sets of {plan.words} x 64 bits"
    ]
    for node in graph.nodes.values():
        if node.kind not in _EXPLAINED:
            continue
        lines.append(f"  {labels[node.id]}: {node.title}")
        lines += [f"    {fact}" for fact in node.facts]
        if read := [labels[source.id] for source in sources[node.id] if source.kind in _EXPLAINED]:
            lines.append(f"    reads {', '.join(read)}")
        if flow := (flows or {}).get(node.id.removeprefix("join:")):
            lines.append(f"    last batch {flow[0]:,} in, {flow[1]:,} out")
        lines += [f"    {group}: {_names(plan, slots)}" for group, slots in node.groups]
        lines.append(f"    serves {_names(plan, node.slots)}")
    return "\n".join(lines)


def explain_query(live: LiveQuery, plan: SharedPlan, streams: Mapping[str, Stream]) -> str:
    """Describe a query, live or ended: its relations, how it runs, and which queries use the same operators."""
    record, query = live.record, live.query
    lines = [f"query {record.name} ({record.id}): {_life(record)}", f"  {' '.join(query.sql.split())}"]
    lines += [f"  {_relation_text(relation)}" for relation in query.relations]
    lines.append(f"  runs as {_strategy_text(query, live.strategy)}")
    graph = plan_graph(plan, streams)
    labels = _labels(graph)
    if record.ended is None:
        for node in graph.of(record.slot):
            if node.kind in _EXPLAINED:
                others = _names(plan, node.slots, except_slot=record.slot) or "nobody"
                lines.append(f"  {labels[node.id]}: {node.title}; shared with {others}")
    lines += [f"  notice: {notice}" for notice in query.notices]
    return "\n".join(lines)


def _names(plan: SharedPlan, slots: Slots, *, except_slot: int | None = None) -> str:
    """List the names of the queries in some slots; a long list is cut."""
    names = [live.record.name for live in plan.queries_in(slots) if live.slot != except_slot]
    cut = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + cut


def _labels(graph: Graph) -> dict[str, str]:
    """Name each node by its kind and a number in the order of the plan, which people read more easily than an id."""
    numbers: Counter[NodeKind] = Counter()

    def label(node: PlanNode) -> str:
        numbers[node.kind] += 1
        return f"{node.kind} {numbers[node.kind]}"

    return {node.id: label(node) for node in graph.nodes.values()}


def _strategy_text(query: BoundQuery, strategy: Strategy) -> str:
    keys = " AND ".join(f"{to_sql(pair.left)} = {to_sql(pair.right)}" for pair in query.keys)
    match strategy:
        case Selection():
            return "a selection"
        case EquiJoin():
            return f"an equi-join on {keys}"
        case ProbeJoin():
            return "a join by probe trees"
        case SessionJoin():
            return f"a join of sessions on {keys}"
        case SliceAggregate():
            return "an aggregate of slices"
        case FactoredAggregate():
            return f"an aggregate over an equi-join on {keys}, which multiplies both sides and builds no pairs"
        case ProbeAggregate():
            return "an aggregate over a join by probe trees"
        case SessionAggregate():
            return f"an aggregate over a join of sessions on {keys}"
        case _:
            assert_never(strategy)


def _life(record: QueryRecord) -> str:
    if record.error:
        return f"failed in batch {record.ended}: {record.error}"
    if record.ended is not None:
        return f"dropped before batch {record.ended}"
    return f"slot {record.slot}, live since batch {record.created}"


def _relation_text(relation: Relation) -> str:
    window = f" {window_text(relation.window)}" if relation.window is not None else ""
    predicate = f" where {to_sql(relation.predicate)}" if relation.predicate is not None else ""
    return f"{relation.stream}{window} as {relation.alias}{predicate}"
