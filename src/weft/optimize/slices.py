"""Weave aggregating queries: who shares which store of slices, and which queries are classed together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from weft.plan.aggregate import Function
from weft.plan.changelog import NO_SLOTS, LiveQuery, Slots, slots_of
from weft.plan.expression import Expression, columns_of, to_sql
from weft.plan.key import StoreId
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedAggregate, SliceFamily, SliceSide, SliceStore
from weft.plan.window import to_micros

SMALLEST_FAMILY = 3
"""Fewer queries than this are not worth a pass over the rows of their own."""


def slice_sides(query: BoundQuery) -> tuple[SliceSide, ...]:
    """Where each relation of an aggregating query accumulates, in the order of its relations."""
    assert query.aggregation is not None
    sides = []
    for number, relation in enumerate(query.relations):
        joins = tuple(pair.right if number else pair.left for pair in query.keys)
        groups = tuple(key.expression for key in query.aggregation.keys if key.relation == number)
        sides.append(
            SliceSide(
                stream=relation.stream,
                role=relation.role,
                keys=joins + groups,
                route=len(joins) if query.is_join else len(groups),
                joined=query.is_join,
                session=query.session is not None,
            )
        )
    return tuple(sides)


def weave_slices(queries: Sequence[LiveQuery]) -> tuple[tuple[SliceStore, ...], tuple[SharedAggregate, ...]]:
    """The stores of slices of these queries, and what is closed from them."""
    users: dict[SliceSide, list[tuple[LiveQuery, int]]] = defaultdict(list)
    together: dict[tuple[tuple[StoreId, ...], tuple[str, ...]], Slots] = defaultdict(lambda: NO_SLOTS)
    for live in queries:
        if live.query.aggregation is None:
            continue
        sides = slice_sides(live.query)
        for number, side in enumerate(sides):
            users[side].append((live, number))
        at = (tuple(side.store for side in sides), tuple(sorted({side.stream for side in sides})))
        together[at] = Slots(together[at] | 1 << live.slot)
    stores = sorted((_store(side, mine) for side, mine in users.items()), key=lambda store: store.id)
    aggregates = (SharedAggregate(places, streams, slots) for (places, streams), slots in sorted(together.items()))
    return tuple(stores), tuple(aggregates)


def _store(side: SliceSide, users: Sequence[tuple[LiveQuery, int]]) -> SliceStore:
    return SliceStore(
        side=side,
        accumulators=_accumulators(users),
        families=_families(users),
        slots=slots_of(live.slot for live, _ in users),
    )


def _accumulators(users: Iterable[tuple[LiveQuery, int]]) -> tuple[tuple[Function, Expression], ...]:
    """What these queries, each with one of its relations, accumulate of that."""
    wanted: dict[tuple[str, str], tuple[Function, Expression]] = {}
    for live, number in users:
        assert live.query.aggregation is not None
        for call in live.query.aggregation.calls:
            argument = call.arguments[number]
            if argument is not None:
                wanted[call.function, to_sql(argument)] = (call.function, argument)
    return tuple(each for _, each in sorted(wanted.items()))


def _families(users: Sequence[tuple[LiveQuery, int]]) -> tuple[SliceFamily, ...]:
    """Queries by the columns their predicates read; the few that are alone in that go with each other."""
    by_columns: dict[tuple[str, ...], list[tuple[LiveQuery, int]]] = defaultdict(list)
    for live, number in users:
        predicate = live.query.relations[number].predicate
        by_columns[() if predicate is None else tuple(sorted(columns_of(predicate)))].append((live, number))
    rare = [each for each in by_columns.values() if len(each) < SMALLEST_FAMILY]
    found = [_family(columns, each) for columns, each in sorted(by_columns.items()) if len(each) >= SMALLEST_FAMILY]
    if rare:
        found.append(_family((), [user for each in rare for user in each]))
    return tuple(found)


def _family(columns: tuple[str, ...], users: Sequence[tuple[LiveQuery, int]]) -> SliceFamily:
    queries = [live for live, _ in users]
    slidings = {live.query.sliding for live in queries}
    gaps = [to_micros(live.query.session.gap) for live in queries if live.query.session is not None]
    return SliceFamily(
        slots=slots_of(live.slot for live in queries),
        columns=columns,
        windows=tuple(sorted((to_micros(s.size), to_micros(s.slide)) for s in slidings if s is not None)),
        gap=min(gaps, default=None),
        accumulators=_accumulators(users),
    )
