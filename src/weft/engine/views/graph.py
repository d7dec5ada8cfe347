"""The shared plan as a graph: streams → selections → stores, joins, aggregates → queries, each with whom it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from weft.plan.changelog import LiveQuery
from weft.plan.expression import Expression, Literal, Opaque, parts_of, to_sql
from weft.plan.key import Key, key_text
from weft.plan.probe_tree import TIME_ROUTE, Input, Probe
from weft.plan.shared import SharedPlan, SliceStore, Store
from weft.plan.slots import Slots
from weft.plan.strategy import Place, SlicedRelation
from weft.plan.stream import Stream
from weft.storage.journal import Manifest


class Kind(StrEnum):
    """What a node is."""

    STREAM = "stream"
    SELECTION = "selection"
    STORE = "store"
    JOIN = "join"
    AGGREGATE = "aggregate"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the plan; `slots` are the queries it serves."""

    id: str
    kind: Kind
    title: str
    detail: str
    slots: Slots
    plain: bool = True
    """Whether what it is for is said with names of streams and columns only: no constant and no text of a query. Who
    shares such an operator learns nothing about the queries of others that they would not have to tell."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by id, and edges in the direction in which rows go."""

    nodes: Mapping[str, Node]
    edges: tuple[tuple[str, str], ...]

    def of(self, slot: int) -> list[Node]:
        """The nodes that serve a query."""
        return [node for node in self.nodes.values() if node.slots >> slot & 1]


def query_node(name: str) -> str:
    """The id of a query's node."""
    return f"query:{name}"


@dataclass(slots=True)
class _Draft:
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str], None] = field(default_factory=dict)

    def add(self, node: Node, *sources: str) -> None:
        known = self.nodes.get(node.id)
        slots = node.slots if known is None else Slots(node.slots | known.slots)
        plain = node.plain and (known is None or known.plain)
        self.nodes[node.id] = replace(node, slots=slots, plain=plain)
        for source in sources:
            self.edges[source, node.id] = None


def plan_graph(plan: SharedPlan, streams: Mapping[str, Stream]) -> Graph:
    """The graph of a plan; streams that no query reads are there too, alone."""
    draft = _Draft()
    for name, stream in sorted(streams.items()):
        columns = ", ".join(f"{each.name} {each.type.ddl()}" for each in stream.schema)
        draft.add(Node(f"stream:{name}", Kind.STREAM, name, columns, Slots(0)))
    for store in plan.stores:
        _add_stored(draft, store)
    _add_joins(draft, plan)
    for tree in plan.probes.trees:
        _add_probe(draft, tree, f"store:{_store_of(plan, tree.start)}", plain=True)
    for slices in plan.slice_stores:
        _add_slices(draft, slices, plan)
    for aggregate in plan.aggregates:
        over = " ⋈ ".join(dict.fromkeys(aggregate.streams))
        title = f"aggregate over {over}"
        detail = "partial aggregates of slices, put together when a window ends"
        sources = [f"store:{store}" for store in aggregate.stores]
        plain = all(draft.nodes[source].plain for source in sources)
        node = Node(f"aggregate:{aggregate.id}", Kind.AGGREGATE, title, detail, aggregate.slots, plain)
        draft.add(node, *sources)
    for live in plan.queries:
        node = Node(query_node(live.record.name), Kind.QUERY, live.record.name, live.query.sql, Slots(1 << live.slot))
        draft.add(node, *_last_of(plan, live))
    edges = (edge for edge in draft.edges if edge[0] in draft.nodes and edge[1] in draft.nodes)
    return Graph(draft.nodes, tuple(edges))


def is_plain(*keys: Key) -> bool:
    """Whether there is nothing in some keys but columns and what is computed of them without constants."""
    parts: Iterator[Expression] = (part for key in keys for each in key for part in parts_of(each))
    return not any(isinstance(part, Literal | Opaque) for part in parts)


def _add_selection(draft: _Draft, stream: str, role: int, slots: Slots) -> str:
    """Which queries want a row: decided once for all of them, for each role the stream has in self-joins."""
    selection, where = f"selection:{stream}#{role}", f"stream:{stream}"
    title = f"selection of {stream}" + (f" as relation {role + 1}" if role else "")
    draft.add(Node(selection, Kind.SELECTION, title, "one pass over the rows for all predicates", slots), where)
    draft.add(Node(where, Kind.STREAM, draft.nodes[where].title, draft.nodes[where].detail, slots))
    return selection


def _add_stored(draft: _Draft, store: Store) -> None:
    selection = _add_selection(draft, store.stream, store.role, store.slots)
    if store.route == TIME_ROUTE:
        title = f"rows of {store.stream} by time"
    else:
        title = f"rows of {store.stream} by {key_text(store.route)}" if store.route else f"results from {store.stream}"
    indexes = ", ".join(key_text(index.key) for index in store.indexes)
    detail = f"columns {', '.join(store.columns) or '(none)'}" + (f"; indexes on {indexes}" if indexes else "")
    plain = is_plain(store.route)
    draft.add(Node(f"store:{store.id}", Kind.STORE, title, detail, store.slots, plain), selection)


def _add_joins(draft: _Draft, plan: SharedPlan) -> None:
    names = {store.id: store.stream for store in plan.stores}
    for join in plan.joins:
        keys = [_key_at(plan, place) for place in ((join.left, join.left_index), (join.right, join.right_index))]
        title, detail = f"{names[join.left]} ⋈ {names[join.right]}", f"on {' = '.join(map(key_text, keys))}"
        draft.add(
            Node(f"join:{join.id}", Kind.JOIN, title, detail, join.slots, is_plain(*keys)),
            *(f"store:{store}" for store in dict.fromkeys((join.left, join.right))),
        )
    for session in plan.session_joins:
        title = " ⋈ ".join(names[store] for store, _ in session.places)
        sources = dict.fromkeys(f"store:{store}" for store, _ in session.places)
        detail = "combinations of a session, when it ends"
        plain = is_plain(*(_key_at(plan, place) for place in session.places))
        draft.add(Node(f"join:{session.id}", Kind.JOIN, title, detail, session.slots, plain), *sources)


def _key_at(plan: SharedPlan, place: Place) -> Key:
    return next(index.key for index in plan.store(place[0]).indexes if index.id == place[1])


def _add_probe(draft: _Draft, probe: Probe, before: str, *, plain: bool) -> None:
    """A step and those after it; `plain` says whether those before it are."""
    mine = f"join:{probe.id}"
    title = f"{' ⋈ '.join(each.stream for each in (*probe.members, *probe.added))}"
    equalities = (*(() if probe.route is None else (probe.route,)), *probe.equalities)
    conditions = [
        f"{each.left.text}.({key_text(each.left_index.key)}) = {each.right.text}.({key_text(each.right_index.key)})"
        for each in equalities
    ]
    plain &= is_plain(*(key for each in equalities for key in (each.left_index.key, each.right_index.key)))
    plain &= is_plain(tuple(each.expression for each in probe.comparisons))
    conditions += [to_sql(each.expression) for each in probe.comparisons]
    detail = f"probe by new rows of {probe.start.text}, on {' AND '.join(conditions) or 'event time'}"
    draft.add(Node(mine, Kind.JOIN, title, detail, probe.slots, plain), before, f"store:{probe.store}")
    if probe.keep is not None:
        kept = " ⋈ ".join(each.stream for each in probe.joined)
        node = Node(f"store:{probe.keep}", Kind.STORE, f"kept {kept}", "an intermediate result", probe.slots, plain)
        draft.add(node, mine)
    for then in probe.then:
        _add_probe(draft, then, mine, plain=plain)


def _store_of(plan: SharedPlan, start: Input) -> str:
    return next(
        store.id for store in plan.stores if (store.stream, store.role) == tuple(start) and store.route == TIME_ROUTE
    )


def _add_slices(draft: _Draft, slices: SliceStore, plan: SharedPlan) -> None:
    side = slices.side
    sources = (
        list(_combinations(plan, side))
        if side.source
        else [_add_selection(draft, side.stream, side.role, slices.slots)]
    )
    what = "windows" if side.source else "sessions" if side.session else "slices"
    title = f"{what} of {side.stream} by {key_text(side.keys) or 'nothing'}"
    calls = ", ".join(f"{function} {to_sql(part)}" for function, part in slices.accumulators)
    detail = f"accumulates rows{', ' + calls if calls else ''}; {len(slices.families)} families of predicates"
    plain = is_plain(side.keys) and all(draft.nodes[source].plain for source in sources)
    draft.add(Node(f"store:{slices.id}", Kind.STORE, title, detail, slices.slots, plain), *sources)


def _combinations(plan: SharedPlan, side: SlicedRelation) -> Iterator[str]:
    """Where the combinations come from that a store of windows accumulates."""
    for probe in plan.probes.probes():
        if probe.result == side.source:
            yield f"join:{probe.id}"


def _last_of(plan: SharedPlan, live: LiveQuery) -> Iterable[str]:
    """Where a query's rows come out."""
    mine = 1 << live.slot
    found = [f"aggregate:{each.id}" for each in plan.aggregates if each.slots & mine]
    if not found:
        found = [f"join:{probe.id}" for probe in plan.probes.probes() if probe.result and probe.result_slots & mine]
    if not found:
        found = [f"join:{join.id}" for join in plan.joins if join.slots & mine]
        found += [f"join:{join.id}" for join in plan.session_joins if join.slots & mine]
    return found or [f"store:{store.id}" for store in plan.stores if store.slots & mine]


def rates_through(batches: Sequence[tuple[float, Mapping[str, int]]]) -> dict[str, float]:
    """Rows per second at each node, from batches in a row: when each was committed, and its `rows_through`."""
    if len(batches) < 2:
        return {}
    total: Counter[str] = Counter()
    for _, rows in batches[1:]:
        total.update(rows)
    seconds = max(batches[-1][0] - batches[0][0], 1e-3)
    return {node: count / seconds for node, count in total.items()}


def rows_through(manifest: Manifest, flows: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Rows that a batch put into or made at each node: stored rows, pairs, combinations, ended windows."""
    rows: dict[str, int] = {f"stream:{name}": totals.rows for name, totals in manifest.streams}
    for bucket in (*manifest.buckets, *manifest.selected):
        rows[f"store:{bucket.store}"] = rows.get(f"store:{bucket.store}", 0) + bucket.rows
    for piece in (piece for segment in manifest.segments for piece in segment.pieces):
        rows[f"join:{piece.join}"] = rows.get(f"join:{piece.join}", 0) + piece.pairs
    for result in manifest.windows:
        for node in (f"aggregate:{result.source}", f"join:{result.source}"):
            rows[node] = rows.get(node, 0) + result.rows
    return rows | {f"join:{probe}": made for probe, (_, made) in flows.items()}
