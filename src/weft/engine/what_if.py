"""What creating a query would add to the shared plan: which operators are there already, and which would be new."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.engine.core import Core
from weft.engine.graph import Kind, Node, plan_graph
from weft.engine.reports import RATE_BATCHES, rates_of
from weft.optimize.weave import choose_route, routes_of
from weft.plan.changelog import NO_SLOTS, LiveQuery, QueryId, QueryRecord, free_slots, slots_of
from weft.plan.query import BoundQuery

_NEW = QueryId("new")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The operators that a query would use."""

    query: BoundQuery
    nodes: tuple[Node, ...]
    """With those who use them now."""
    streams: tuple[str, ...]
    rows_per_second: float
    """Of the streams it reads: what the new operators would see at most."""

    @property
    def new(self) -> frozenset[str]:
        """Ids of the operators that nobody uses yet."""
        return frozenset(node.id for node in self.nodes if not node.slots)

    @property
    def text(self) -> str:
        """In words: what is shared, what is new."""
        lines = [
            f"reads {', '.join(self.streams)}: {self.rows_per_second:,.0f} rows per second",
            f"{len(self.nodes) - len(self.new)} of {len(self.nodes)} operators are there already",
        ]
        for node in self.nodes:
            shared = f"shared with {_count(node)}" if node.id not in self.new else "new"
            lines.append(f"  {node.kind} {node.title}: {shared}")
        return "\n".join(lines)


def _count(node: Node) -> str:
    others = node.slots.bit_count()
    return f"{others} {'query' if others == 1 else 'queries'}"


def what_if(core: Core, query: BoundQuery) -> WhatIf:
    """What this query would add now; nothing is changed."""
    with core.lock:
        streams, live, before = dict(core.streams), list(core.roster.live.values()), core.plan
        results = list(core.inventory.results[-RATE_BATCHES:])
    slot = free_slots(slots_of(each.slot for each in live), 1)[0]
    record = QueryRecord(_NEW, _NEW, query.sql, slot, 0, None, choose_route(query, routes_of(live)))
    there = plan_graph(before, streams)
    imagined = core.planning.imagine([*live, LiveQuery(record, query)], streams, results)
    mine = [node for node in plan_graph(imagined, streams).of(slot) if node.kind is not Kind.QUERY]
    used = {node.id: node.slots for node in there.nodes.values()}
    names = tuple(dict.fromkeys(relation.stream for relation in query.relations))
    rates = rates_of(results)
    return WhatIf(
        query=query,
        nodes=tuple(replace(node, slots=used.get(node.id, NO_SLOTS)) for node in mine),
        streams=names,
        rows_per_second=sum(rates.get(name, 0.0) for name in names),
    )
