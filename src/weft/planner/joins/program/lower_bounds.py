"""Shapes of queries, by which lower bounds of their costs are shared.

The edges and copies that a query could use cost together at least as much as the query alone. As a row of the integer
program, this bound closes most of the relaxation's gap for large queries that share little. Queries that differ only in
the names of relations and attributes have the same cost alone, so the bound is computed once per shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

from weft.planner.joins.estimate import Estimates
from weft.planner.joins.graph import bits

Shape = tuple[object, ...]
"""Equal for two queries if they and their statistics differ only in the names of relations and attributes."""

_MOST_ORDERS = 5040
"""The largest number of compared renamings; a query with more gets a shape of its own."""


def shape_of(estimates: Estimates, inputs: int, predicates: int) -> Shape:
    """Return the query's canonical form: the least of its descriptions over all orders of its relations."""
    numbers = list(bits(inputs))
    marks = {number: _mark(estimates, number, predicates) for number in numbers}
    alike: dict[object, list[int]] = {}
    for number in sorted(numbers, key=lambda number: (marks[number], number)):
        alike.setdefault(marks[number], []).append(number)
    orders = 1
    for group in alike.values():
        for factor in range(2, len(group) + 1):
            orders *= factor
    if orders > _MOST_ORDERS:
        return (inputs, predicates)
    descriptions = [_described(estimates, order, predicates) for order in _orders(list(alike.values()))]
    return (tuple(marks[number] for group in alike.values() for number in group), min(descriptions))


def _mark(estimates: Estimates, number: int, predicates: int) -> tuple[float, ...]:
    """Return the properties of a relation that do not depend on names."""
    graph = estimates.graph
    joins = sorted(
        estimates.selectivities[predicate] + (2 if graph.predicates[predicate].is_equality else 4)
        for predicate in bits(predicates)
        if number in graph.ends[predicate]
    )
    return (estimates.rates[number], estimates.stores[number], estimates.tasks(1 << number), len(joins), *joins)


def _orders(groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    for chosen in product(*(permutations(group) for group in groups)):
        yield tuple(number for group in chosen for number in group)


def _described(estimates: Estimates, order: tuple[int, ...], predicates: int) -> tuple[tuple[object, ...], ...]:
    """Describe the predicates; relations are named by position, attributes by the number of their first occurrence."""
    graph = estimates.graph
    place = {number: position for position, number in enumerate(order)}
    rows = []
    for i in bits(predicates):
        predicate = graph.predicates[i]
        sides = [(place[graph.ends[i][0]], predicate.left.name), (place[graph.ends[i][1]], predicate.right.name)]
        comparison = "=" if predicate.is_equality else "other"
        rows.append((tuple(sorted(sides)), comparison, estimates.selectivities[i]))
    rows.sort(key=lambda row: ([position for position, _ in row[0]], row[1], row[2]))
    names: dict[tuple[int, str], int] = {}
    described = []
    for ends, comparison, selectivity in rows:
        numbered = tuple((position, names.setdefault((position, name), len(names))) for position, name in ends)
        described.append((numbered, comparison, selectivity))
    return tuple(described)
