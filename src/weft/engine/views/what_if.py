"""What creating a query would add to the shared plan: which operators it would share, which would be new, and how many
rows per second would come to them. The cost is in the planner's unit: rows per second that come to an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.engine.batches.reports import RATE_BATCHES
from weft.engine.core import Core
from weft.engine.views.operator_rates import rates_through, rows_through
from weft.engine.views.part import part_of
from weft.engine.views.plan_graph import Graph, NodeKind, PlanNode, is_plain, plan_graph
from weft.plan.changelog import LiveQuery, QueryId, QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedPlan
from weft.plan.slots import NO_SLOTS, Slots, free_slots, slot_set
from weft.planner.strategy import choose_route, live_query, routes_of

_NEW = QueryId("new")
_COUNTED = (NodeKind.STREAM, NodeKind.STORE, NodeKind.JOIN, NodeKind.AGGREGATE)
"""Operators whose rows are counted; a selection has the rows of its stream."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The operators that a query would use."""

    query: BoundQuery
    nodes: tuple[PlanNode, ...]
    """The operators, with the slots that use them now."""
    streams: tuple[str, ...]
    rows_per_second: float
    """The rows per second of the streams that the query reads."""
    takes: Mapping[str, float]
    """The rows per second that come to each operator; for a new operator, an estimate."""

    @property
    def new(self) -> frozenset[str]:
        """The ids of the operators that no query uses yet."""
        return frozenset(node.id for node in self.nodes if not node.slots)

    @property
    def cost_alone(self) -> float:
        """The rows per second of all operators, as if this were the only query."""
        return sum(self.takes.values())

    @property
    def cost_added(self) -> float:
        """The marginal cost: the rows per second of the operators that are new."""
        return sum(self.takes[node] for node in self.new)

    @property
    def text(self) -> str:
        """The operators in words: which are shared, and which are new."""
        lines = [
            f"reads {', '.join(self.streams)}: {self.rows_per_second:,.0f} rows per second",
            f"{len(self.nodes) - len(self.new)} of {len(self.nodes)} operators are there already",
            f"adds {self.cost_added:,.0f} rows per second of work; alone it would be {self.cost_alone:,.0f}",
        ]
        for node in self.nodes:
            shared = f"shared with {_count(node)}" if node.id not in self.new else "new"
            lines.append(f"  {node.kind} {node.title}: {shared}, {self.takes[node.id]:,.0f} rows per second")
        return "\n".join(lines)


def _count(node: PlanNode) -> str:
    others = node.slots.bit_count()
    return f"{others} {'query' if others == 1 else 'queries'}"


Sees = Callable[[str], bool]
"""Returns whether a query of this name may be seen."""


def what_if(core: Core, query: BoundQuery, *, sees: Sees | None = None) -> WhatIf:
    """Return what this query would add now; nothing is changed.

    With `sees`, the answer is for somebody who may see only some queries. Operators are described by these queries. An
    operator of others counts as new, and its rows are not shown, unless it is plain (`PlanNode.plain`). So nobody can
    find out by asking which constants the queries of others contain.
    """
    before = core.plan
    with core.lock:
        streams, live = dict(core.streams), list(core.roster.live.values())
        kept, flows = core.inventory.results[-RATE_BATCHES:], core.planning.flows
        lease = core.leases.take(core.next_batch - len(kept))
    with lease:
        results = list(kept)  # after a restart they are read from disk
    through = [(manifest.at, rows_through(manifest, flows)) for manifest in results]
    slot = free_slots(slot_set(entry.slot for entry in live), 1)[0]
    known = live if sees is None else [entry for entry in live if sees(entry.record.name) or _has_plain_route(entry)]
    record = QueryRecord(_NEW, _NEW, query.sql, slot, 0, None, choose_route(query, routes_of(known)))
    imagined = core.planning.trace_of([*live, live_query(record, query)], streams, results).plan
    current = plan_graph(before, streams)
    rates = rates_through(through)
    if rates:  # operators that are not among the rates had no rows
        rates = {node.id: 0.0 for node in current.nodes.values() if node.slots and node.kind in _COUNTED} | rates
    users = {node.id: node.slots for node in current.nodes.values()}
    planned = _planned_costs(imagined) if rates else {}
    if sees is None:
        graph = plan_graph(imagined, streams)
    else:
        own = slot_set(entry.slot for entry in live if sees(entry.record.name))
        graph = plan_graph(part_of(imagined, streams, Slots(own | 1 << slot)), streams)
        secret = {node.id for node in graph.nodes.values() if not node.plain}
        users = {node: Slots(slots & own) if node in secret else slots for node, slots in users.items()}
        rates = {node: rate for node, rate in rates.items() if node not in secret}
        # The planner estimates from what was measured of the same keys, so its costs would tell that others have them.
        planned = {node: cost for node, cost in planned.items() if node not in secret}
    nodes = [node for node in graph.of(slot) if node.kind is not NodeKind.QUERY]
    names = tuple(dict.fromkeys(relation.stream for relation in query.relations))
    return WhatIf(
        query=query,
        nodes=tuple(replace(node, slots=users.get(node.id, NO_SLOTS)) for node in nodes),
        streams=names,
        rows_per_second=sum(rates.get(f"stream:{name}", 0.0) for name in names),
        takes=_takes(graph, [node.id for node in nodes], rates, planned),
    )


def _has_plain_route(live: LiveQuery) -> bool:
    pairs = [live.query.keys[at] for at in live.record.route]
    return is_plain(tuple(side for pair in pairs for side in (pair.left, pair.right)))


def _planned_costs(plan: SharedPlan) -> dict[str, float]:
    """Return the planner's costs of the probe steps: the rows per second that are sent to their stores."""
    return {f"join:{probe.id}": probe.cost for probe in plan.probes.probes()}


def _takes(
    graph: Graph, nodes: Sequence[str], rates: Mapping[str, float], planned: Mapping[str, float]
) -> dict[str, float]:
    """Return the rows per second that come to each operator.

    For probe steps this is the cost by which the planner has chosen them. For other operators it is what the operators
    before them produce, or receive where it is not known what they produce.
    """
    sources: dict[str, list[str]] = {node: [] for node in nodes}
    for source, node in graph.edges:
        if source in sources and node in sources:
            sources[node].append(source)
    takes: dict[str, float] = {}

    def take(node: str) -> float:
        if node not in takes:
            gives = [rates.get(source, take(source)) for source in sources[node]]
            takes[node] = planned[node] if node in planned else sum(gives) if gives else rates.get(node, 0.0)
        return takes[node]

    return {node: take(node) for node in nodes}
