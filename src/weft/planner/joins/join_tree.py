"""Trees of multi-way joins for one query (MultiStream IV-C, IV-D), which trade storage cost for probe cost.

The leaves are relations; each inner node below the root is a stored join. Flat trees store least, left-deep and bushy
trees probe least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from weft.errors import UnsupportedQuery
from weft.planner.joins.estimate import Estimates
from weft.planner.joins.graph import JoinQuery, bits, connected_subsets, is_connected
from weft.planner.joins.one_query import Probing, probing_of

_MOST_PARTS = 6
"""Sets of at most this many relations are divided in every way; larger ones only in two, or into single relations."""
_MOST_KEPT = 64
"""The largest number of trees per set that are kept to build larger trees."""


@dataclass(frozen=True, slots=True)
class JoinTree:
    """A relation (no children), or the join of two or more children; `inputs` are the relations of the tree."""

    inputs: int
    children: tuple[JoinTree, ...] = ()

    def text(self, estimates: Estimates) -> str:
        """Return the tree as text, with brackets around each join."""
        if not self.children:
            return estimates.graph.names(self.inputs)[0]
        return "(" + " ⋈ ".join(child.text(estimates) for child in self.children) + ")"


@dataclass(frozen=True, slots=True)
class PricedTree:
    """A tree with its probe cost (eq. 4, combinations sent per second) and storage cost (eq. 3, combinations)."""

    tree: JoinTree
    probe_cost: float
    storage: float


def price(tree: JoinTree, probing: Probing) -> PricedTree:
    """Return the tree with its probe and storage cost; the result of the root is not stored."""
    joins = list(_joins(tree))
    stored = [*(JoinTree(1 << number) for number in bits(tree.inputs)), *(join for join in joins if join is not tree)]
    return PricedTree(
        tree,
        math.fsum(operator_cost(probing, [child.inputs for child in join.children]) for join in joins),
        math.fsum(_stored(probing, part.inputs) for part in stored),
    )


def operator_cost(probing: Probing, parts: list[int]) -> float:
    """Return the cost of one multi-way join (eq. 2): rows of each part visit the other stores in the best order."""
    return math.fsum(
        _best_visit(probing, start, parts[i], [*parts[:i], *parts[i + 1 :]])
        for i in range(len(parts))
        for start in bits(parts[i])
    )


def chain_tree(query: JoinQuery, estimates: Estimates, budget: float) -> PricedTree:
    """Build a chain's tree by MultiStream fig. 7: start flat, add the smallest stored join while the budget allows."""
    probing = probing_of(query, estimates)
    chain = _chain(query, probing)
    tree = _flat(probing.inputs)
    while True:
        wider = [price(candidate, probing) for candidate in _one_more(tree, chain)]
        smallest = min(wider, key=lambda priced: (priced.storage, priced.probe_cost, priced.tree.inputs), default=None)
        if smallest is None or smallest.storage > budget:
            return price(tree, probing)
        tree = smallest.tree


def best_tree(query: JoinQuery, estimates: Estimates, budget: float) -> PricedTree:
    """Return the tree with the least probe cost within the storage budget, for any connected join graph.

    The method is dynamic programming over connected sets, smaller ones first. For each set it keeps the trees that no
    other tree beats in both costs. If no tree fits, the result is the flat tree: relations are stored in any case.
    """
    probing = probing_of(query, estimates)
    neighbours = estimates.graph.neighbours(probing.predicates)
    kept: dict[int, list[PricedTree]] = {}
    for inputs in connected_subsets(probing.inputs, neighbours):
        if inputs.bit_count() == 1:
            kept[inputs] = [PricedTree(JoinTree(inputs), 0.0, _stored(probing, inputs))]
            continue
        candidates = [
            tree
            for parts in _divisions(inputs, neighbours)
            for tree in _joined(probing, parts, kept, is_root=inputs == probing.inputs)
        ]
        kept[inputs] = _front(candidates, budget)
    trees = [tree for tree in kept[probing.inputs] if tree.storage <= budget]
    return min(trees, key=lambda tree: tree.probe_cost, default=price(_flat(probing.inputs), probing))


def _joined(
    probing: Probing, parts: tuple[int, ...], kept: dict[int, list[PricedTree]], *, is_root: bool
) -> Iterator[PricedTree]:
    own_cost = operator_cost(probing, list(parts))
    inputs = sum(parts)
    stored = 0.0 if is_root else _stored(probing, inputs)
    for children in product(*(kept[part] for part in parts)):
        yield PricedTree(
            JoinTree(inputs, tuple(child.tree for child in children)),
            math.fsum([own_cost, *(child.probe_cost for child in children)]),
            math.fsum([stored, *(child.storage for child in children)]),
        )


def _front(trees: list[PricedTree], budget: float) -> list[PricedTree]:
    """Return the trees within the budget that no other beats in both costs, and at least the one that stores least."""
    front: list[PricedTree] = []
    for tree in sorted(trees, key=lambda tree: (tree.storage, tree.probe_cost)):
        if not front or (tree.storage <= budget and tree.probe_cost < front[-1].probe_cost):
            front.append(tree)
    return front if len(front) <= _MOST_KEPT else [*front[: _MOST_KEPT - 1], front[-1]]


def _divisions(inputs: int, neighbours: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield the divisions of a connected set into two or more connected parts, each once."""
    if inputs.bit_count() > _MOST_PARTS:
        yield tuple(1 << number for number in bits(inputs))
        yield from ((part, inputs ^ part) for part in _parts_with_lowest(inputs, neighbours)
                    if part != inputs and is_connected(inputs ^ part, neighbours))  # fmt: skip
        return
    for first in _parts_with_lowest(inputs, neighbours):
        if first != inputs:
            for others in _cut(inputs ^ first, neighbours):
                yield (first, *others)


def _cut(inputs: int, neighbours: dict[int, int]) -> Iterator[tuple[int, ...]]:
    if not inputs:
        yield ()
    for first in _parts_with_lowest(inputs, neighbours) if inputs else ():
        for others in _cut(inputs ^ first, neighbours):
            yield (first, *others)


def _parts_with_lowest(inputs: int, neighbours: dict[int, int]) -> list[int]:
    lowest = inputs & -inputs
    return [subset for subset in connected_subsets(inputs, neighbours) if subset & lowest]


def _best_visit(probing: Probing, start: int, joined: int, others: list[int]) -> float:
    """Return the cost of the cheapest visiting order; for each set joined so far, only the least cost matters."""
    best = {joined: 0.0}
    for _ in others:
        further: dict[int, float] = {}
        for reached, cost in best.items():
            around = sum(1 << number for number in probing.next_inputs(reached))
            for part in others:
                if not part & reached and part & around:
                    total = cost + probing.step(start, reached, part)
                    if total < further.get(reached | part, math.inf):
                        further[reached | part] = total
        best = further
    return min(best.values())


def _stored(probing: Probing, inputs: int) -> float:
    return probing.estimates.stored(inputs, probing.estimates.graph.within(inputs, probing.predicates))


def _joins(tree: JoinTree) -> Iterator[JoinTree]:
    if tree.children:
        yield tree
    for child in tree.children:
        yield from _joins(child)


def _flat(inputs: int) -> JoinTree:
    leaves = tuple(JoinTree(1 << number) for number in bits(inputs))
    return JoinTree(inputs, leaves) if len(leaves) > 1 else leaves[0]


def _chain(query: JoinQuery, probing: Probing) -> list[int]:
    """Return the relations from one end of the chain to the other."""
    neighbours = probing.estimates.graph.neighbours(probing.predicates)
    ends = [number for number in bits(probing.inputs) if neighbours.get(number, 0).bit_count() == 1]
    edges = sum(adjacent.bit_count() for adjacent in neighbours.values()) // 2
    if len(ends) != 2 or edges != probing.inputs.bit_count() - 1:
        raise UnsupportedQuery(f'query "{query.id}" is not a chain of joins', hint="Use best_tree for other shapes.")
    chain = [ends[0]]
    while len(chain) < probing.inputs.bit_count():
        chain.extend(bits(neighbours[chain[-1]] & ~sum(1 << number for number in chain)))
    return chain


def _one_more(tree: JoinTree, chain: list[int]) -> Iterator[JoinTree]:
    """Yield the trees with one more stored join: neighbouring children of one node become a node of their own."""
    position_of = {number: position for position, number in enumerate(chain)}
    children = sorted(tree.children, key=lambda child: min(position_of[number] for number in bits(child.inputs)))
    for first in range(len(children)):
        for last in range(first + 2, len(children) + 1):
            if last - first < len(children):
                fused = children[first:last]
                new = JoinTree(sum(child.inputs for child in fused), tuple(fused))
                yield JoinTree(tree.inputs, (*children[:first], new, *children[last:]))
        for changed in _one_more(children[first], chain):
            yield JoinTree(tree.inputs, (*children[:first], changed, *children[first + 1 :]))
