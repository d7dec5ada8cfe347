"""Session joins of many relations, or by more than equalities: what is gathered for each query when sessions end.

Sessions are of the key that all relations have in common, so rows are stored by that key, and all rows of a session
are found in one task. What else a query asks of its combinations is asked while they are gathered.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.plan.expression import Expression
from weft.plan.key import Index, content_id, is_exact, key_text
from weft.plan.probe_tree import Input, inputs_of
from weft.plan.query import BoundQuery
from weft.planner.join_aggregates import over_combinations
from weft.planner.joins.normal_form import over_inputs
from weft.sql.names.connection import common_key


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


def session_indexes(query: BoundQuery) -> tuple[Index, ...]:
    """For each relation the index by the key that sessions are of."""
    common = common_key(query.keys, len(query.relations))
    assert common is not None, "the binder lets no session join pass that has no key in common"
    exact = is_exact(common.types)
    return tuple(Index(key, exact) for key in common.keys)


def session_aggregate_id(query: BoundQuery, source: str) -> str:
    """Names the query's aggregates in the result log: by what is joined and what is grouped by."""
    assert query.aggregation is not None
    keys = tuple(key.expression for key in over_combinations(query).keys)
    return content_id("session aggregate", source, key_text(keys))
