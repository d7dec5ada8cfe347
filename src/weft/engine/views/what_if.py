"""What creating a query would add to the shared plan: which operators are there already, which would be new, and what
they would have to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.engine.batches.reports import RATE_BATCHES
from weft.engine.core import Core
from weft.engine.views.operator_rates import rates_through, rows_through
from weft.engine.views.part import part_of
from weft.engine.views.plan_graph import Graph, Kind, Node, is_plain, plan_graph
from weft.plan.changelog import LiveQuery, QueryId, QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.slots import NO_SLOTS, Slots, free_slots, slot_set
from weft.planner.strategy import choose_route, live_query, routes_of

_NEW = QueryId("new")
_COUNTED = (Kind.STREAM, Kind.STORE, Kind.JOIN, Kind.AGGREGATE)
"""Operators of which rows are counted; through a selection go those of its stream."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The operators that a query would use."""

    query: BoundQuery
    nodes: tuple[Node, ...]
    """With those who use them now."""
    streams: tuple[str, ...]
    rows_per_second: float
    """Of the streams it reads."""
    takes: Mapping[str, float]
    """Rows per second that come to each of the operators; of one that is not there yet what it would take at most."""

    @property
    def new(self) -> frozenset[str]:
        """Ids of the operators that nobody uses yet."""
        return frozenset(node.id for node in self.nodes if not node.slots)

    @property
    def cost_alone(self) -> float:
        """Rows per second that its operators would take in together if it were the only query."""
        return sum(self.takes.values())

    @property
    def cost_added(self) -> float:
        """The part of it that nobody takes in yet: its marginal cost."""
        return sum(self.takes[node] for node in self.new)

    @property
    def text(self) -> str:
        """In words: what is shared, what is new."""
        lines = [
            f"reads {', '.join(self.streams)}: {self.rows_per_second:,.0f} rows per second",
            f"{len(self.nodes) - len(self.new)} of {len(self.nodes)} operators are there already",
            f"adds {self.cost_added:,.0f} rows per second of work; alone it would be {self.cost_alone:,.0f}",
        ]
        for node in self.nodes:
            shared = f"shared with {_count(node)}" if node.id not in self.new else "new"
            lines.append(f"  {node.kind} {node.title}: {shared}, {self.takes[node.id]:,.0f} rows per second")
        return "\n".join(lines)


def _count(node: Node) -> str:
    others = node.slots.bit_count()
    return f"{others} {'query' if others == 1 else 'queries'}"


Sees = Callable[[str], bool]
"""Whether whoever asks may see a query, by its name."""


def what_if(core: Core, query: BoundQuery, *, sees: Sees | None = None) -> WhatIf:
    """What this query would add now; nothing is changed.

    With `sees`, for somebody who may see some queries only: operators are described by theirs. That others have an
    operator already is told only where streams and columns say all about it (`Node.plain`); otherwise it counts as new
    unless a query of their own uses it, and its rows are not told. So nobody finds out by asking which constants
    others' queries have.
    """
    before = core.plan
    with core.lock:
        streams, live = dict(core.streams), list(core.roster.live.values())
        kept, flows = core.inventory.results[-RATE_BATCHES:], core.planning.flows
        lease = core.leases.take(core.next_batch - len(kept))
    with lease:
        results = list(kept)  # after a restart they are read from the disk
    through = [(each.at, rows_through(each, flows)) for each in results]
    slot = free_slots(slot_set(each.slot for each in live), 1)[0]
    known = live if sees is None else [each for each in live if sees(each.record.name) or _has_plain_route(each)]
    record = QueryRecord(_NEW, _NEW, query.sql, slot, 0, None, choose_route(query, routes_of(known)))
    imagined = core.planning.trace_of([*live, live_query(record, query)], streams, results).plan
    there = plan_graph(before, streams)
    seen = rates_through(through)
    if seen:  # whatever is there and has no rows has none
        seen = {node.id: 0.0 for node in there.nodes.values() if node.slots and node.kind in _COUNTED} | seen
    used = {node.id: node.slots for node in there.nodes.values()}
    if sees is None:
        graph = plan_graph(imagined, streams)
    else:
        own = slot_set(each.slot for each in live if sees(each.record.name))
        graph = plan_graph(part_of(imagined, streams, Slots(own | 1 << slot)), streams)
        secret = {node.id for node in graph.nodes.values() if not node.plain}
        used = {node: Slots(slots & own) if node in secret else slots for node, slots in used.items()}
        seen = {node: rate for node, rate in seen.items() if node not in secret}
    mine = [node for node in graph.of(slot) if node.kind is not Kind.QUERY]
    names = tuple(dict.fromkeys(relation.stream for relation in query.relations))
    return WhatIf(
        query=query,
        nodes=tuple(replace(node, slots=used.get(node.id, NO_SLOTS)) for node in mine),
        streams=names,
        rows_per_second=sum(seen.get(f"stream:{name}", 0.0) for name in names),
        takes=_takes(graph, [node.id for node in mine], seen),
    )


def _has_plain_route(live: LiveQuery) -> bool:
    pairs = [live.query.keys[at] for at in live.record.route]
    return is_plain(tuple(side for pair in pairs for side in (pair.left, pair.right)))


def _takes(graph: Graph, mine: Sequence[str], seen: Mapping[str, float]) -> dict[str, float]:
    """What comes to each operator: what those before it give, or take where it is not known what they give."""
    sources: dict[str, list[str]] = {node: [] for node in mine}
    for source, node in graph.edges:
        if source in sources and node in sources:
            sources[node].append(source)
    takes: dict[str, float] = {}

    def take(node: str) -> float:
        if node not in takes:
            gives = [seen.get(source, take(source)) for source in sources[node]]
            takes[node] = sum(gives) if gives else seen.get(node, 0.0)
        return takes[node]

    return {node: take(node) for node in mine}
