"""Relations and queries that the papers draw, for tests."""

from __future__ import annotations

from collections.abc import Mapping

from weft.plan.changelog import QueryId
from weft.planner.joins.graph import Attribute, JoinInput, JoinQuery, Predicate, predicate_of
from weft.planner.joins.statistics import Statistics


def relation(name: str) -> JoinInput:
    return JoinInput(name)


def attribute(text: str) -> Attribute:
    """`R.a`."""
    name, column = text.split(".")
    return Attribute(JoinInput(name), column)


def condition(text: str) -> Predicate:
    """`R.a = S.b`."""
    left, comparison, right = text.split()
    return predicate_of(attribute(left), attribute(right), comparison)


def query(name: str, *conditions: str) -> JoinQuery:
    """A query with these predicates, over the relations they name."""
    predicates = tuple(condition(text) for text in conditions)
    inputs = {side.input for each in predicates for side in (each.left, each.right)}
    return JoinQuery(QueryId(name), tuple(sorted(inputs, key=lambda each: each.text)), predicates)


def statistics(rates: Mapping[str, float], selectivities: Mapping[str, float]) -> Statistics:
    return Statistics(
        rates={relation(name): rate for name, rate in rates.items()},
        selectivities={condition(text): value for text, value in selectivities.items()},
    )


def chain(length: int) -> JoinQuery:
    """R0 ⋈ R1 ⋈ …, each joined with the next."""
    return query("chain", *(f"R{at}.b = R{at + 1}.a" for at in range(length - 1)))


def even(length: int, *, rate: float = 100.0, selectivity: float = 0.01) -> Statistics:
    """The same rate and selectivity everywhere."""
    return statistics(
        {f"R{at}": rate for at in range(length)},
        {f"R{at}.b = R{at + 1}.a": selectivity for at in range(length - 1)},
    )
