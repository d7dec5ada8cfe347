"""How the combinations of a session join are built when a session closes.

Sessions are by the key that all relations have in common. Rows are stored by that key, so one task has all rows of a
session. The task checks the other conditions of a query while it builds the combinations.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.plan.expression import Expression
from weft.plan.probe_tree import Input, inputs_of
from weft.plan.query import BoundQuery
from weft.planner.joins.normal_form import over_inputs


@dataclass(frozen=True, slots=True)
class CombinationOrder:
    """The inputs of a query in their fixed order, and pairs (n, condition): the first n inputs decide the condition."""

    inputs: tuple[Input, ...]
    conditions: tuple[tuple[int, Expression], ...]


def combination_order(query: BoundQuery) -> CombinationOrder:
    """Return how to build the combinations of a query."""
    inputs = inputs_of(query)
    order = tuple(sorted(inputs))
    conditions = (
        (1 + max(order.index(inputs[relation]) for relation in condition.relations), over_inputs(condition, inputs))
        for condition in query.conditions
    )
    return CombinationOrder(order, tuple(sorted(conditions, key=lambda entry: entry[0])))
