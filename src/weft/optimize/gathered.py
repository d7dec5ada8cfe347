"""Session joins of many relations, or by more than equalities: what is gathered for each query when sessions end.

Sessions are of the key that all relations have in common, so rows are stored by that key, and all rows of a session
are found in one task. What else a query asks of its combinations is asked while they are gathered.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.optimize.combined import over_combinations
from weft.optimize.probed import over_inputs
from weft.plan.changelog import LiveQuery, Slots
from weft.plan.expression import Expression, columns_of
from weft.plan.key import Index, content_id, is_exact, key_text
from weft.plan.probes import Input, inputs_of
from weft.plan.query import BoundQuery
from weft.plan.shared import SliceFamily, SliceSide, SliceStore
from weft.sql.connection import common_key


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


def session_slices(live: LiveQuery, source: str) -> SliceStore:
    """What an aggregating query accumulates of its combinations; every window is a slice of its own."""
    over = over_combinations(live.query)
    keys = tuple(key.expression for key in over.keys)
    first = min(inputs_of(live.query))
    calls = [(call.function, argument) for call in over.calls if (argument := call.arguments[0]) is not None]
    wanted = tuple({(function, key_text((part,))): (function, part) for function, part in calls}.values())
    slots = Slots(1 << live.slot)
    side = SliceSide(first.stream, first.role, keys, len(keys), joined=False, session=True, source=source)
    return SliceStore(side, wanted, (SliceFamily(slots, (), ((1, 1),), None, wanted),), slots)


def session_aggregate_id(query: BoundQuery, source: str) -> str:
    """Names the query's aggregates in the result log: by what is joined and what is grouped by."""
    assert query.aggregation is not None
    keys = tuple(key.expression for key in over_combinations(query).keys)
    return content_id("session aggregate", source, key_text(keys))


def gathered_columns(query: BoundQuery, relation: int) -> frozenset[str]:
    """Columns of a relation that conditions, group keys and arguments read."""
    mine = inputs_of(query)[relation]
    read = [expression for _, expression in gathering(query).conditions]
    if query.aggregation is not None:
        read += over_combinations(query).parts(0)
    names = frozenset[str]().union(*(columns_of(each) for each in read))
    prefix = mine.column("")
    return frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix))
