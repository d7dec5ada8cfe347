"""All probe orders of all queries as paths through one lattice of connected sets.

What a step costs depends on the set of relations joined so far, not on their order. So the lattice has a node for
each (starting relation, connected set, predicates inside it) and an edge for each step "probe the store of B", where
B is a relation or a materializable intermediate result. Equal steps of different queries are one edge: that is how
queries share. A query needs a path to its whole set from each of its relations; an intermediate store, once probed,
needs the same for its own set.
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
"""Of a broadcast: it can use every copy of its store, however that is partitioned."""


class Node(NamedTuple):
    """Tuples of `start` joined with the rest of `inputs` by `predicates`; a tuple because it is looked up so often."""

    start: int
    inputs: int
    predicates: int


@dataclass(frozen=True, slots=True)
class Edge:
    """One step: partial results at `source` probe the store and arrive at `target`, for `cost` tuples per second.

    `copies` are those partitioned by an attribute the partial results know, so that each goes to one task;
    `ANY_COPY` means a broadcast to all tasks of one copy.
    """

    source: int
    target: int
    store: int
    copies: tuple[int, ...]
    cost: float


class StoredSet(NamedTuple):
    """What a store holds: a relation, or the join of several."""

    inputs: int
    predicates: int

    @property
    def is_intermediate(self) -> bool:
        """Whether it has to be computed before it can be stored."""
        return self.inputs & (self.inputs - 1) != 0


@dataclass(frozen=True, slots=True)
class Copy:
    """A store partitioned by one attribute; by none, rows are placed at random."""

    store: int
    attribute: Attribute | None
    cost: float


@dataclass(frozen=True, slots=True)
class Lattice:
    """Everything that can be chosen for some queries, numbered; never changed after it was made."""

    estimates: Estimates
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    incoming: tuple[tuple[int, ...], ...]
    """For each node the edges that lead to it."""
    stores: tuple[StoredSet, ...]
    copies: tuple[Copy, ...]
    copies_of: tuple[tuple[int, ...], ...]
    """For each store its copies."""
    targets: dict[QueryId, tuple[int, ...]]
    """For each query the nodes it needs a path to, one per relation."""
    upkeep: tuple[tuple[int, ...], ...]
    """For each store the nodes that keep it up to date; none for a relation."""
    node_numbers: dict[Node, int] = field(repr=False)
    store_numbers: dict[StoredSet, int] = field(repr=False)

    @property
    def graph(self) -> JoinGraph:
        """The numbers of relations and predicates."""
        return self.estimates.graph

    def serving(self, edge: int) -> tuple[int, ...]:
        """The copies an edge can use."""
        each = self.edges[edge]
        return each.copies or self.copies_of[each.store]


Families = Mapping[QueryId, Collection[int]]
"""For queries too large for all their sets: the sets that are considered, single relations among them."""


def build_lattice(
    queries: Iterable[JoinQuery], statistics: Statistics, model: CostModel, *, families: Families | None = None
) -> Lattice:
    """The lattice of these queries."""
    queries = tuple(queries)
    estimates = estimate(JoinGraph().extended(queries), statistics, model)
    return extend(Lattice(estimates, (), (), (), (), (), (), {}, (), {}, {}), queries, families=families)


def extend(lattice: Lattice, queries: Iterable[JoinQuery], *, families: Families | None = None) -> Lattice:
    """The lattice with more queries; all that was in it keeps its number."""
    queries = tuple(queries)
    families = families or {}
    old = lattice.estimates
    graph = old.graph.extended(queries)
    estimates = old if graph is old.graph else estimate(graph, old.statistics, old.model)
    growth = _Growth(lattice, estimates)
    for query in sorted(queries, key=lambda each: each.id in families):  # complete ones first: sets are split once
        growth.add(query, families.get(query.id))
    return growth.finished()


class _Growth:
    """A lattice while it is being built: each set is split in two once, and each split gives edges both ways."""

    def __init__(self, base: Lattice, estimates: Estimates) -> None:
        self.estimates = estimates
        self.graph = estimates.graph
        self.model = estimates.model
        self.nodes = list(base.nodes)
        self.edges = list(base.edges)
        self.incoming = [list(each) for each in base.incoming]
        self.stores = list(base.stores)
        self.copies = list(base.copies)
        self.copies_of = [list(each) for each in base.copies_of]
        self.targets = dict(base.targets)
        self.upkeep = base.upkeep
        self.node_numbers = dict(base.node_numbers)
        self.store_numbers = dict(base.store_numbers)
        self.copy_numbers = {(each.store, each.attribute): at for at, each in enumerate(self.copies)}
        self.known = {(each.inputs, each.predicates) for each in self.nodes}

    def add(self, query: JoinQuery, family: Collection[int] | None) -> None:
        inputs, predicates = self.graph.encode(query)
        if family is None:
            neighbours = self.graph.neighbours(predicates)
            self._split(inputs, predicates, lambda whole: _halves(whole, neighbours))
        else:
            sets = sorted(family)
            self._split(inputs, predicates, lambda whole: _family_halves(whole, sets))
        self.targets[query.id] = tuple(self._node(start, inputs, predicates) for start in bits(inputs))

    def finished(self) -> Lattice:
        upkeep = (
            *self.upkeep,
            *(
                tuple(self._node(start, each.inputs, each.predicates) for start in bits(each.inputs))
                if each.is_intermediate
                else ()
                for each in self.stores[len(self.upkeep) :]
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
        for one, other in halves(inputs):
            in_one = self.graph.within(one, predicates)
            in_other = self.graph.within(other, predicates)
            self._split(one, in_one, halves)
            self._split(other, in_other, halves)
            between = predicates & ~in_one & ~in_other
            self._step(StoredSet(one, in_one), StoredSet(other, in_other), between)
            self._step(StoredSet(other, in_other), StoredSet(one, in_one), between)

    def _step(self, joined: StoredSet, probed: StoredSet, between: int) -> None:
        """Edges from every start in `joined` that probe a store of `probed`."""
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
                    continue  # a copy of one's own costs no more than broadcasting
            self._edge(Edge(source, target, store, ANY_COPY, flow * tasks))

    def _edge(self, edge: Edge) -> None:
        self.incoming[edge.target].append(len(self.edges))
        self.edges.append(edge)

    def _copies(self, store: int, probed: StoredSet, between: int) -> tuple[int, ...]:
        """Copies partitioned by an attribute that `between` equates with one of the probing side."""
        found = []
        for number in bits(between):
            predicate = self.graph.predicates[number]
            if predicate.is_equality:
                left, _ = self.graph.ends[number]
                side = predicate.left if probed.inputs >> left & 1 else predicate.right
                found.append(self._copy(store, side))
        if not found and not self.copies_of[store]:
            self._copy(store, None)
        return tuple(sorted(set(found)))

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
        node = Node(start, inputs, predicates)
        number = self.node_numbers.get(node)
        if number is None:
            number = self.node_numbers[node] = len(self.nodes)
            self.nodes.append(node)
            self.incoming.append([])
        return number


def _halves(inputs: int, neighbours: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Every cut of a connected set into two connected parts, once."""
    rest = inputs & (inputs - 1)
    part = rest
    while part:
        if is_connected(part, neighbours) and is_connected(inputs ^ part, neighbours):
            yield part, inputs ^ part
        part = (part - 1) & rest


def _family_halves(inputs: int, family: Sequence[int]) -> Iterator[tuple[int, int]]:
    members = set(family)
    lowest = inputs & -inputs
    for part in family:
        if part & inputs == part != inputs and not part & lowest and inputs ^ part in members:
            yield part, inputs ^ part
