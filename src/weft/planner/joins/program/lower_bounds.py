"""What a query costs at least, whoever else is there: known once, it serves every query of the same shape.

All edges and copies that a query could use cost together at least what the query costs alone. As a row of the integer
program this closes most of what the relaxation leaves open for large queries that share little. Queries that differ
only in the names of relations and attributes have the same cost alone, so it is worked out once per shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

from weft.planner.joins.estimate import Estimates
from weft.planner.joins.graph import bits

Shape = tuple[object, ...]
"""Equal for two queries if one is the other with relations and attributes renamed, statistics included."""

_MOST_ORDERS = 5040
"""Renamings that are compared; a query with more of them is taken as unlike any other."""


def shape_of(estimates: Estimates, inputs: int, predicates: int) -> Shape:
    """The query's canonical form: the least of its descriptions over all orders of its relations."""
    numbers = list(bits(inputs))
    marks = {number: _mark(estimates, number, predicates) for number in numbers}
    alike: dict[object, list[int]] = {}
    for number in sorted(numbers, key=lambda each: (marks[each], each)):
        alike.setdefault(marks[number], []).append(number)
    orders = 1
    for group in alike.values():
        for factor in range(2, len(group) + 1):
            orders *= factor
    if orders > _MOST_ORDERS:
        return (inputs, predicates)
    described = [_described(estimates, order, predicates) for order in _orders(list(alike.values()))]
    return (tuple(marks[number] for group in alike.values() for number in group), min(described))


def _mark(estimates: Estimates, number: int, predicates: int) -> tuple[float, ...]:
    """What is the same for a relation whatever it is called."""
    graph = estimates.graph
    joins = sorted(
        estimates.selectivities[each] + (2 if graph.predicates[each].is_equality else 4)
        for each in bits(predicates)
        if number in graph.ends[each]
    )
    return (estimates.rates[number], estimates.stores[number], estimates.tasks(1 << number), len(joins), *joins)


def _orders(groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    for chosen in product(*(permutations(group) for group in groups)):
        yield tuple(number for group in chosen for number in group)


def _described(estimates: Estimates, order: tuple[int, ...], predicates: int) -> tuple[tuple[object, ...], ...]:
    """The predicates with relations named by their place in the order, and attributes by where they occur first."""
    graph = estimates.graph
    place = {number: at for at, number in enumerate(order)}
    rows = []
    for each in bits(predicates):
        predicate = graph.predicates[each]
        sides = [(place[graph.ends[each][0]], predicate.left.name), (place[graph.ends[each][1]], predicate.right.name)]
        comparison = "=" if predicate.is_equality else "other"
        rows.append((tuple(sorted(sides)), comparison, estimates.selectivities[each]))
    rows.sort(key=lambda row: ([at for at, _ in row[0]], row[1], row[2]))
    names: dict[tuple[int, str], int] = {}
    described = []
    for ends, comparison, selectivity in rows:
        numbered = tuple((at, names.setdefault((at, name), len(names))) for at, name in ends)
        described.append((numbered, comparison, selectivity))
    return tuple(described)
