"""What there is to choose from (CLASH V, algorithms 1 and 2): intermediate results and probe orders, written out.

The optimizers never enumerate complete orders; this is for showing the alternatives of a decision and for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from weft.planner.joins.graph import Attribute, JoinInput
from weft.planner.joins.lattice import Lattice


@dataclass(frozen=True, slots=True)
class Candidate:
    """A probe order: the stores (by their relations' names) that a tuple of `start` visits, and what that costs."""

    start: JoinInput
    stores: tuple[tuple[str, ...], ...]
    cost: float


@dataclass(frozen=True, slots=True)
class PartitionedCandidate:
    """A probe order with the partitioning of each store; `None` where rows are placed at random."""

    start: JoinInput
    stores: tuple[tuple[tuple[str, ...], Attribute | None], ...]


def materializable(lattice: Lattice) -> tuple[tuple[str, ...], ...]:
    """Every relation and every join that some probe order could use as a store, smaller ones first."""
    names = {lattice.graph.names(each.inputs) for each in lattice.stores}
    return tuple(sorted(names, key=lambda each: (len(each), each)))


def candidate_orders(lattice: Lattice, node: int) -> tuple[Candidate, ...]:
    """Algorithm 1: every probe order to the node; its cost is with the cheapest routing, shared with nobody."""
    start = lattice.graph.inputs[lattice.nodes[node].start]
    return tuple(
        Candidate(
            start,
            tuple(lattice.graph.names(lattice.stores[store].inputs) for _, _, store in steps),
            sum(_least_cost(lattice, step) for step in steps),
        )
        for steps in _step_sequences(lattice, node)
    )


def count_orders(lattice: Lattice, node: int) -> int:
    """How many there are, without writing them out."""
    counts: dict[int, int] = {}

    def count(at: int) -> int:
        if at not in counts:
            steps = {(lattice.edges[edge].source, lattice.edges[edge].store) for edge in lattice.incoming[at]}
            counts[at] = sum(count(source) for source, _ in steps) if steps else 1
        return counts[at]

    return count(node)


def partitioned_orders(lattice: Lattice, node: int) -> tuple[PartitionedCandidate, ...]:
    """Algorithm 2, line 3: the same with every partitioning that some query has a use for."""
    start = lattice.graph.inputs[lattice.nodes[node].start]
    found = []
    for steps in _step_sequences(lattice, node):
        stores = [store for _, _, store in steps]
        for copies in product(*(lattice.copies_of[store] for store in stores)):
            names = [lattice.graph.names(lattice.stores[store].inputs) for store in stores]
            attributes = [lattice.copies[copy].attribute for copy in copies]
            found.append(PartitionedCandidate(start, tuple(zip(names, attributes, strict=True))))
    return tuple(found)


_Step = tuple[int, int, int]
"""Source, target and store, whether routed or broadcast."""


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
    edges = (lattice.edges[edge] for edge in lattice.incoming[step[1]])
    return min(each.cost for each in edges if (each.source, each.target, each.store) == step)
