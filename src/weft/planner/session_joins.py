"""Session joins of many relations, or by more than equalities: what is gathered for each query when sessions end.

Sessions are of the key that all relations have in common, so rows are stored by that key, and all rows of a session
are found in one task. What else a query asks of its combinations is asked while they are gathered.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.plan.expression import Expression
from weft.plan.probe_tree import Input, inputs_of
from weft.plan.query import BoundQuery
from weft.planner.joins.normal_form import over_inputs


@dataclass(frozen=True, slots=True)
class Gathering:
    """A query's combinations: members in the fixed order of inputs, and the conditions that can be judged when so many
    of them are chosen."""

    inputs: tuple[Input, ...]
    conditions: tuple[tuple[int, Expression], ...]


def gathering(query: BoundQuery) -> Gathering:
    """How a query's combinations are gathered."""
    inputs = inputs_of(query)
    order = tuple(sorted(inputs))
    conditions = (
        (1 + max(order.index(inputs[at]) for at in each.relations), over_inputs(each, inputs))
        for each in query.conditions
    )
    return Gathering(order, tuple(sorted(conditions, key=lambda each: each[0])))
