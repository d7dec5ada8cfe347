"""The shared plan as a graph of operators: streams, selections, stores, joins, aggregates and queries.

This is the only walk over a shared plan for people. Explain texts, the REST API, the dashboard, what-if and counts of
rows all read the graph, so they name the same operators and agree on which queries share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from weft.plan.changelog import LiveQuery
from weft.plan.expression import Expression, Literal, Opaque, parts_of, to_sql
from weft.plan.key import Key, key_text
from weft.plan.probe_tree import TIME_ROUTE, Equality, Input, Probe
from weft.plan.shared import SharedPlan, SliceStore, Store
from weft.plan.slots import NO_SLOTS, Slots
from weft.plan.strategy import (
    EquiJoin,
    FactoredAggregate,
    Place,
    ProbeAggregate,
    ProbeJoin,
    Selection,
    SessionAggregate,
    SessionJoin,
    SliceAggregate,
)
from weft.plan.stream import Stream


class NodeKind(StrEnum):
    """The kind of a node."""

    STREAM = "stream"
    SELECTION = "selection"
    STORE = "store"
    JOIN = "join"
    AGGREGATE = "aggregate"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An operator of the plan; `slots` are the queries that it serves."""

    id: str
    kind: NodeKind
    title: str
    facts: tuple[str, ...]
    """What else is known of the operator, for example the columns of a store."""
    slots: Slots
    plain: bool = True
    """Whether the title and the facts contain only names of streams and columns, and no constant or text of a query.
    A tenant who shares a plain operator learns nothing secret about the queries of other tenants."""
    groups: tuple[tuple[str, Slots], ...] = ()
    """Some of the queries, by what the operator does for them in particular."""

    @property
    def detail(self) -> str:
        """All facts in one line."""
        return "; ".join(self.facts)


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by id, and edges in the direction in which rows flow."""

    nodes: Mapping[str, PlanNode]
    edges: tuple[tuple[str, str], ...]

    def of(self, slot: int) -> list[PlanNode]:
        """Return the nodes that serve the query in a slot."""
        return [node for node in self.nodes.values() if node.slots >> slot & 1]

    def sources(self) -> dict[str, list[PlanNode]]:
        """Return the nodes from which rows flow to each node."""
        sources: dict[str, list[PlanNode]] = {node: [] for node in self.nodes}
        for source, target in self.edges:
            sources[target].append(self.nodes[source])
        return sources


def query_node(name: str) -> str:
    """Return the id of the node of a query."""
    return f"query:{name}"


def is_plain(*keys: Key) -> bool:
    """Return whether keys consist only of columns and of what is computed from columns without constants."""
    parts: Iterator[Expression] = (part for key in keys for expression in key for part in parts_of(expression))
    return not any(isinstance(part, Literal | Opaque) for part in parts)


def plan_graph(plan: SharedPlan, streams: Mapping[str, Stream]) -> Graph:
    """Return the graph of a plan. Streams that no query reads are nodes without edges."""
    draft = _Draft(plan)
    for name, stream in sorted(streams.items()):
        columns = ", ".join(f"{column.name} {column.type.ddl()}" for column in stream.schema)
        draft.add(PlanNode(f"stream:{name}", NodeKind.STREAM, name, (columns,), NO_SLOTS))
    for store in plan.stores:
        draft.add_store(store)
    draft.add_equi_joins()
    draft.add_session_joins()
    for tree in plan.probes.trees:
        draft.add_probe(tree, f"store:{_probed_store(plan, tree.start)}", plain=True)
    for slices in plan.slice_stores:
        draft.add_slices(slices)
    for aggregate in plan.aggregates:
        title = f"aggregate over {' ⋈ '.join(dict.fromkeys(aggregate.streams))}"
        sources = [f"store:{store}" for store in aggregate.stores]
        plain = all(draft.nodes[source].plain for source in sources)
        facts = ("combines partial aggregates when a window closes",)
        draft.add(
            PlanNode(f"aggregate:{aggregate.id}", NodeKind.AGGREGATE, title, facts, aggregate.slots, plain), *sources
        )
    for live in plan.queries:
        name, slots = live.record.name, Slots(1 << live.slot)
        draft.add(PlanNode(query_node(name), NodeKind.QUERY, name, (live.query.sql,), slots), *_outputs_of(plan, live))
    edges = tuple(edge for edge in draft.edges if edge[0] in draft.nodes and edge[1] in draft.nodes)
    return Graph(draft.nodes, edges)


@dataclass(slots=True)
class _Draft:
    """The graph while it is built."""

    plan: SharedPlan
    nodes: dict[str, PlanNode] = field(default_factory=dict)
    edges: dict[tuple[str, str], None] = field(default_factory=dict)

    def add(self, node: PlanNode, *sources: str) -> None:
        known = self.nodes.get(node.id)
        if known is not None:
            node = replace(node, slots=Slots(node.slots | known.slots), plain=node.plain and known.plain)
        self.nodes[node.id] = node
        for source in sources:
            self.edges[source, node.id] = None

    def add_selection(self, stream: str, role: int, slots: Slots) -> str:
        """Add the selection of a stream in one role, which decides in one pass which queries want a row."""
        selection, source = f"selection:{stream}#{role}", f"stream:{stream}"
        title = f"selection of {stream}" + (f" as relation {role + 1}" if role else "")
        self.add(
            PlanNode(selection, NodeKind.SELECTION, title, ("one pass over the rows for all predicates",), slots),
            source,
        )
        self.add(replace(self.nodes[source], slots=slots))
        return selection

    def add_store(self, store: Store) -> None:
        selection = self.add_selection(store.stream, store.role, store.slots)
        if store.route == TIME_ROUTE:
            title = f"rows of {store.stream} by time"
        elif store.route:
            title = f"rows of {store.stream} by {key_text(store.route)}"
        else:
            title = f"results from {store.stream}"
        columns = f"columns {', '.join(store.columns) or '(none)'}"
        indexes = tuple(f"index on {key_text(index.key)}" for index in store.indexes)
        node = PlanNode(
            f"store:{store.id}", NodeKind.STORE, title, (columns, *indexes), store.slots, is_plain(store.route)
        )
        self.add(node, selection)

    def add_equi_joins(self) -> None:
        for join in self.plan.joins:
            places = ((join.left, join.left_index), (join.right, join.right_index))
            self._add_join(join.id, places, "equi-join on", join.slots)

    def add_session_joins(self) -> None:
        for join in self.plan.session_joins:
            self._add_join(join.id, join.places, "combinations of a session, when it closes, on", join.slots)

    def _add_join(self, join_id: str, places: Sequence[Place], how: str, slots: Slots) -> None:
        stores = [self.plan.store(store) for store, _ in places]
        keys = [
            next(index.key for index in store.indexes if index.id == place[1])
            for store, place in zip(stores, places, strict=True)
        ]
        title = " ⋈ ".join(store.stream for store in stores)
        facts = (f"{how} {' = '.join(map(key_text, keys))}",)
        sources = dict.fromkeys(f"store:{store.id}" for store in stores)
        self.add(PlanNode(f"join:{join_id}", NodeKind.JOIN, title, facts, slots, is_plain(*keys)), *sources)

    def add_probe(self, probe: Probe, source: str, *, plain: bool) -> None:
        """Add a probe step and the steps after it; `plain` says whether all steps before it are plain."""
        node_id = f"join:{probe.id}"
        equalities = (*(() if probe.route is None else (probe.route,)), *probe.equalities)
        comparisons = tuple(comparison.expression for comparison in probe.comparisons)
        keys = [key for equality in equalities for key in (equality.left_index.key, equality.right_index.key)]
        plain = plain and is_plain(*keys, comparisons)
        conditions = [*map(_equality_text, equalities), *map(to_sql, comparisons)]
        facts = [f"probe by new rows of {probe.start.text}, on {' AND '.join(conditions) or 'event time'}"]
        if probe.route is None:
            facts.append("probed by all tasks")
        groups = (("produces results", probe.result_slots),) if probe.result else ()
        title = " ⋈ ".join(member.text for member in (*probe.members, *probe.added))
        node = PlanNode(node_id, NodeKind.JOIN, title, tuple(facts), probe.slots, plain, groups)
        self.add(node, source, f"store:{probe.store}")
        if probe.keep is not None:
            self._add_stored_join(probe, node)
        for step in probe.then:
            self.add_probe(step, node_id, plain=plain)

    def _add_stored_join(self, probe: Probe, source: PlanNode) -> None:
        indexes = next((stored.indexes for stored in self.plan.probes.stored if stored.id == probe.keep), ())
        facts = ("an intermediate result", *(f"index on {owner.text}.({key_text(i.key)})" for owner, i in indexes))
        title = f"kept {' ⋈ '.join(member.text for member in probe.joined)}"
        plain = source.plain and is_plain(*(index.key for _, index in indexes))
        self.add(PlanNode(f"store:{probe.keep}", NodeKind.STORE, title, facts, probe.slots, plain), source.id)

    def add_slices(self, slices: SliceStore) -> None:
        side = slices.side
        if side.source:
            probes = [probe for probe in self.plan.probes.probes() if probe.result == side.source]
            sources = [f"join:{probe.id}" for probe in probes]
            what = f"windows of {' ⋈ '.join(member.text for member in probes[0].joined)}"
        else:
            sources = [self.add_selection(side.stream, side.role, slices.slots)]
            what = f"{'sessions' if side.session else 'slices'} of {side.stream}"
        title = f"{what} by {key_text(side.keys) or 'nothing'}"
        calls = (f"{function} {to_sql(argument)}" for function, argument in slices.accumulators)
        facts = (f"accumulates {', '.join(('rows', *calls))}",)
        groups = tuple(
            (f"classes by {', '.join(family.columns)}" if family.columns else "mixed classes", family.slots)
            for family in slices.families
        )
        plain = is_plain(side.keys) and all(self.nodes[source].plain for source in sources)
        self.add(PlanNode(f"store:{slices.id}", NodeKind.STORE, title, facts, slices.slots, plain, groups), *sources)


def _equality_text(equality: Equality) -> str:
    left = f"{equality.left.text}.({key_text(equality.left_index.key)})"
    return f"{left} = {equality.right.text}.({key_text(equality.right_index.key)})"


def _probed_store(plan: SharedPlan, start: Input) -> str:
    return next(
        store.id for store in plan.stores if (store.stream, store.role) == tuple(start) and store.route == TIME_ROUTE
    )


def _outputs_of(plan: SharedPlan, live: LiveQuery) -> Iterable[str]:
    """Return the ids of the nodes that produce the rows of a query."""
    match live.strategy:
        case Selection(relation=relation):
            return [f"store:{relation.store}"]
        case EquiJoin(result=result) | SessionJoin(result=result) | SessionAggregate(join=SessionJoin(result=result)):
            return [f"join:{result}"]
        case ProbeJoin(result=result):
            wanted = 1 << live.slot
            probes = plan.probes.probes()
            return [f"join:{step.id}" for step in probes if step.result == result and step.result_slots & wanted]
        case SliceAggregate(result=result) | FactoredAggregate(result=result) | ProbeAggregate(result=result):
            return [f"aggregate:{result}"]
        case _:
            assert_never(live.strategy)
