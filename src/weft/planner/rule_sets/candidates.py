"""Enumeration of stored joins and probe orders (CLASH V, algorithms 1 and 2).

The optimizers never enumerate complete orders. These functions show the alternatives of a decision, and serve tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from weft.planner.joins.graph import Attribute, JoinInput
from weft.planner.joins.lattice import Lattice


@dataclass(frozen=True, slots=True)
class CandidateOrder:
    """A probe order: the stores (by the names of their relations) that a row of `start` visits, and the cost."""

    start: JoinInput
    stores: tuple[tuple[str, ...], ...]
    cost: float


@dataclass(frozen=True, slots=True)
class PartitionedCandidate:
    """A probe order with the partitioning of each store; None means random placement."""

    start: JoinInput
    stores: tuple[tuple[tuple[str, ...], Attribute | None], ...]


def materializable(lattice: Lattice) -> tuple[tuple[str, ...], ...]:
    """Return every relation and join that some probe order can use as a store, smaller ones first."""
    names = {lattice.graph.names(store.inputs) for store in lattice.stores}
    return tuple(sorted(names, key=lambda relations: (len(relations), relations)))


def candidate_orders(lattice: Lattice, node: int) -> tuple[CandidateOrder, ...]:
    """Return every probe order to the node (algorithm 1), with its cost by the cheapest routing and without sharing."""
    start = lattice.graph.inputs[lattice.nodes[node].start]
    return tuple(
        CandidateOrder(
            start,
            tuple(lattice.graph.names(lattice.stores[store].inputs) for _, _, store in steps),
            sum(_least_cost(lattice, step) for step in steps),
        )
        for steps in _step_sequences(lattice, node)
    )


def count_orders(lattice: Lattice, node: int) -> int:
    """Return the number of probe orders to the node, without enumerating them."""
    counts: dict[int, int] = {}

    def count(at: int) -> int:
        if at not in counts:
            steps = {(lattice.edges[edge].source, lattice.edges[edge].store) for edge in lattice.incoming[at]}
            counts[at] = sum(count(source) for source, _ in steps) if steps else 1
        return counts[at]

    return count(node)


def partitioned_orders(lattice: Lattice, node: int) -> tuple[PartitionedCandidate, ...]:
    """Return every probe order with every partitioning that some query can use (algorithm 2, line 3)."""
    start = lattice.graph.inputs[lattice.nodes[node].start]
    orders = []
    for steps in _step_sequences(lattice, node):
        stores = [store for _, _, store in steps]
        for copies in product(*(lattice.copies_of[store] for store in stores)):
            names = [lattice.graph.names(lattice.stores[store].inputs) for store in stores]
            attributes = [lattice.copies[copy].attribute for copy in copies]
            orders.append(PartitionedCandidate(start, tuple(zip(names, attributes, strict=True))))
    return tuple(orders)


_Step = tuple[int, int, int]
"""Source, target and store of an edge, whether routed or broadcast."""


def _step_sequences(lattice: Lattice, node: int) -> Iterator[tuple[_Step, ...]]:
    steps = dict.fromkeys(
        (lattice.edges[edge].source, lattice.edges[edge].target, lattice.edges[edge].store)
        for edge in lattice.incoming[node]
    )
    if not steps:
        yield ()
    for step in steps:
        for before in _step_sequences(lattice, step[0]):
            yield (*before, step)


def _least_cost(lattice: Lattice, step: _Step) -> float:
    edges = (lattice.edges[number] for number in lattice.incoming[step[1]])
    return min(edge.cost for edge in edges if (edge.source, edge.target, edge.store) == step)
