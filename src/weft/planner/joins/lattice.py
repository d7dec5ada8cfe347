"""All probe orders of all queries as paths through one lattice of connected sets.

The cost of a step depends on the set of relations joined so far, not on their order. So the lattice has a node for
each (start relation, connected set, predicates inside the set) and an edge for each step "probe the store of B", where
B is a relation or a join that could be stored. Queries share work because equal steps of different queries are one
edge. A query needs a path from each of its relations to its complete set; a stored join that is probed needs the same
for its own set (its upkeep).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.plan.changelog import QueryId
from weft.planner.joins.estimate import Estimates, estimate
from weft.planner.joins.graph import Attribute, JoinGraph, JoinQuery, bits, is_connected
from weft.planner.joins.statistics import CostModel, Statistics

ANY_COPY: tuple[int, ...] = ()
"""The `Edge.copies` of a broadcast, which can use every copy of its store, however the copy is partitioned."""


class LatticeNode(NamedTuple):
    """Rows of `start` joined with the rest of `inputs` by `predicates`. A named tuple, because lookups are frequent."""

    start: int
    inputs: int
    predicates: int


@dataclass(frozen=True, slots=True)
class Edge:
    """One step: combinations at `source` probe the store and arrive at `target`, for `cost` combinations per second.

    `copies` are partitioned by an attribute of the probing combinations, so that each combination goes to one task;
    `ANY_COPY` means a broadcast to all tasks of one copy.
    """

    source: int
    target: int
    store: int
    copies: tuple[int, ...]
    cost: float


class StoredSet(NamedTuple):
    """The contents of a store: a relation, or a join of several relations."""

    inputs: int
    predicates: int

    @property
    def is_intermediate(self) -> bool:
        """Whether the store is a stored join."""
        return self.inputs & (self.inputs - 1) != 0


@dataclass(frozen=True, slots=True)
class Copy:
    """A store partitioned by one attribute, or randomly if `attribute` is None."""

    store: int
    attribute: Attribute | None
    cost: float


@dataclass(frozen=True, slots=True)
class Lattice:
    """All possible choices for a set of queries, numbered. It is immutable."""

    estimates: Estimates
    nodes: tuple[LatticeNode, ...]
    edges: tuple[Edge, ...]
    incoming: tuple[tuple[int, ...], ...]
    """For each node, the edges that lead to it."""
    stores: tuple[StoredSet, ...]
    copies: tuple[Copy, ...]
    copies_of: tuple[tuple[int, ...], ...]
    """For each store, its copies."""
    targets: dict[QueryId, tuple[int, ...]]
    """For each query, the nodes that need a path, one per relation."""
    upkeep: tuple[tuple[int, ...], ...]
    """For each stored join, the nodes that need a path to keep it up to date; () for the store of a relation."""
    node_numbers: dict[LatticeNode, int] = field(repr=False)
    store_numbers: dict[StoredSet, int] = field(repr=False)

    @property
    def graph(self) -> JoinGraph:
        """The join graph, which numbers relations and predicates."""
        return self.estimates.graph

    def serving(self, edge: int) -> tuple[int, ...]:
        """Return the copies of a store that an edge can probe."""
        probe = self.edges[edge]
        return probe.copies or self.copies_of[probe.store]


Families = Mapping[QueryId, Collection[int]]
"""For each query with too many connected sets: the sets to consider, including all single relations."""


def build_lattice(
    queries: Iterable[JoinQuery], statistics: Statistics, model: CostModel, *, families: Families | None = None
) -> Lattice:
    """Return the lattice of the queries."""
    queries = tuple(queries)
    estimates = estimate(JoinGraph().extended(queries), statistics, model)
    return extend(Lattice(estimates, (), (), (), (), (), (), {}, (), {}, {}), queries, families=families)


def extend(lattice: Lattice, queries: Iterable[JoinQuery], *, families: Families | None = None) -> Lattice:
    """Return the lattice with more queries; existing nodes, edges, stores and copies keep their numbers."""
    queries = tuple(queries)
    families = families or {}
    old = lattice.estimates
    graph = old.graph.extended(queries)
    estimates = old if graph is old.graph else estimate(graph, old.statistics, old.model)
    growth = _Growth(lattice, estimates)
    # Queries without a family come first: a set is split only once, and they need all of its splits.
    for query in sorted(queries, key=lambda query: query.id in families):
        growth.add(query, families.get(query.id))
    return growth.finished()


class _Growth:
    """A lattice under construction: each set is split into two parts once, and each split adds edges both ways."""

    def __init__(self, base: Lattice, estimates: Estimates) -> None:
        self.estimates = estimates
        self.graph = estimates.graph
        self.model = estimates.model
        self.nodes = list(base.nodes)
        self.edges = list(base.edges)
        self.incoming = [list(edges) for edges in base.incoming]
        self.stores = list(base.stores)
        self.copies = list(base.copies)
        self.copies_of = [list(copies) for copies in base.copies_of]
        self.targets = dict(base.targets)
        self.upkeep = base.upkeep
        self.node_numbers = dict(base.node_numbers)
        self.store_numbers = dict(base.store_numbers)
        self.copy_numbers = {(copy.store, copy.attribute): number for number, copy in enumerate(self.copies)}
        self.known = {(node.inputs, node.predicates) for node in self.nodes}

    def add(self, query: JoinQuery, family: Collection[int] | None) -> None:
        inputs, predicates = self.graph.encode(query)
        if family is None:
            neighbours = self.graph.neighbours(predicates)
            self._split(inputs, predicates, lambda subset: _halves(subset, neighbours))
        else:
            sets = sorted(family)
            self._split(inputs, predicates, lambda subset: _family_halves(subset, sets))
        self.targets[query.id] = tuple(self._node(start, inputs, predicates) for start in bits(inputs))

    def finished(self) -> Lattice:
        upkeep = (
            *self.upkeep,
            *(
                tuple(self._node(start, store.inputs, store.predicates) for start in bits(store.inputs))
                if store.is_intermediate
                else ()
                for store in self.stores[len(self.upkeep) :]
            ),
        )
        return Lattice(
            self.estimates,
            tuple(self.nodes),
            tuple(self.edges),
            tuple(map(tuple, self.incoming)),
            tuple(self.stores),
            tuple(self.copies),
            tuple(map(tuple, self.copies_of)),
            self.targets,
            upkeep,
            self.node_numbers,
            self.store_numbers,
        )

    def _split(self, inputs: int, predicates: int, halves: Callable[[int], Iterable[tuple[int, int]]]) -> None:
        if (inputs, predicates) in self.known:
            return
        self.known.add((inputs, predicates))
        for start in bits(inputs):
            self._node(start, inputs, predicates)
        for left, right in halves(inputs):
            in_left = self.graph.within(left, predicates)
            in_right = self.graph.within(right, predicates)
            self._split(left, in_left, halves)
            self._split(right, in_right, halves)
            between = predicates & ~in_left & ~in_right
            self._step(StoredSet(left, in_left), StoredSet(right, in_right), between)
            self._step(StoredSet(right, in_right), StoredSet(left, in_left), between)

    def _step(self, joined: StoredSet, probed: StoredSet, between: int) -> None:
        """Add the edges from every start in `joined` that probe a store of `probed`."""
        if probed.is_intermediate and not (
            self.model.intermediates and probed.inputs.bit_count() <= self.model.largest_intermediate
        ):
            return
        store = self._store(probed)
        tasks = self.estimates.tasks(probed.inputs)
        copies = self._copies(store, probed, between)
        price = self.estimates.storage_cost(probed.inputs, probed.predicates)
        inputs = joined.inputs | probed.inputs
        predicates = joined.predicates | probed.predicates | between
        for start in bits(joined.inputs):
            source = self._node(start, joined.inputs, joined.predicates)
            target = self._node(start, inputs, predicates)
            flow = self.estimates.flow(start, joined.inputs, joined.predicates)
            if copies and tasks > 1:
                self._edge(Edge(source, target, store, copies, flow))
                if (tasks - 1) * flow >= price:
                    continue  # a new partitioned copy costs no more than the broadcast would
            self._edge(Edge(source, target, store, ANY_COPY, flow * tasks))

    def _edge(self, edge: Edge) -> None:
        self.incoming[edge.target].append(len(self.edges))
        self.edges.append(edge)

    def _copies(self, store: int, probed: StoredSet, between: int) -> tuple[int, ...]:
        """Return the copies partitioned by an attribute that `between` equates with one of the probing side."""
        copies = []
        for number in bits(between):
            predicate = self.graph.predicates[number]
            if predicate.is_equality:
                left, _ = self.graph.ends[number]
                side = predicate.left if probed.inputs >> left & 1 else predicate.right
                copies.append(self._copy(store, side))
        if not copies and not self.copies_of[store]:
            self._copy(store, None)
        return tuple(sorted(set(copies)))

    def _copy(self, store: int, attribute: Attribute | None) -> int:
        key = (store, attribute)
        if key not in self.copy_numbers:
            held = self.stores[store]
            self.copy_numbers[key] = len(self.copies)
            self.copies_of[store].append(len(self.copies))
            self.copies.append(Copy(store, attribute, self.estimates.storage_cost(held.inputs, held.predicates)))
        return self.copy_numbers[key]

    def _store(self, held: StoredSet) -> int:
        if held not in self.store_numbers:
            self.store_numbers[held] = len(self.stores)
            self.stores.append(held)
            self.copies_of.append([])
        return self.store_numbers[held]

    def _node(self, start: int, inputs: int, predicates: int) -> int:
        node = LatticeNode(start, inputs, predicates)
        number = self.node_numbers.get(node)
        if number is None:
            number = self.node_numbers[node] = len(self.nodes)
            self.nodes.append(node)
            self.incoming.append([])
        return number


def _halves(inputs: int, neighbours: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield every division of a connected set into two connected parts, each once."""
    others = inputs & (inputs - 1)
    part = others
    while part:
        if is_connected(part, neighbours) and is_connected(inputs ^ part, neighbours):
            yield part, inputs ^ part
        part = (part - 1) & others


def _family_halves(inputs: int, family: Sequence[int]) -> Iterator[tuple[int, int]]:
    members = set(family)
    lowest = inputs & -inputs
    for part in family:
        if part & inputs == part != inputs and not part & lowest and inputs ^ part in members:
            yield part, inputs ^ part
