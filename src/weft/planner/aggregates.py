"""Weave aggregating queries: who shares which store of slices, and which queries are classed together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weft.plan.aggregation import Call, Function
from weft.plan.changelog import NO_SLOTS, LiveQuery, Slots, slots_of
from weft.plan.expression import Expression, columns_of
from weft.plan.identity import identity
from weft.plan.key import StoreId
from weft.plan.probe_tree import inputs_of
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedAggregate, SliceFamily, SliceSide, SliceStore
from weft.plan.window import to_micros
from weft.planner.join_aggregates import over_combinations, selected_columns
from weft.planner.joins.normal_form import source_of

SMALLEST_FAMILY = 3
"""Fewer queries than this are not worth a pass over the rows of their own."""


def slice_sides(query: BoundQuery) -> tuple[SliceSide, ...]:
    """Where an aggregating query accumulates: each relation for itself, in their order, or all of them together where
    probe trees find the combinations."""
    assert query.aggregation is not None
    if query.is_probed:
        return (_combined_side(query),)
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


def _combined_side(query: BoundQuery) -> SliceSide:
    first = min(inputs_of(query))
    keys = tuple(key.expression for key in over_combinations(query).keys)
    return SliceSide(first.stream, first.role, keys, len(keys), joined=False, session=False, source=source_of(query))


def session_slices(live: LiveQuery, source: str) -> SliceStore:
    """What an aggregating query accumulates of the combinations of its sessions: every window is a slice of its own."""
    over, first, slots = over_combinations(live.query), min(inputs_of(live.query)), slots_of((live.slot,))
    keys = tuple(key.expression for key in over.keys)
    side = SliceSide(first.stream, first.role, keys, len(keys), joined=False, session=True, source=source)
    wanted = _accumulators([_User(live, side, _arguments(over.calls, 0), ())])
    return SliceStore(side, wanted, (SliceFamily(slots, (), ((1, 1),), None, wanted),), slots)


class _User(NamedTuple):
    """A query and what it accumulates on one side."""

    live: LiveQuery
    side: SliceSide
    accumulated: tuple[tuple[Function, Expression], ...]
    columns: tuple[str, ...]
    """What its predicates read there."""


def _users(live: LiveQuery) -> tuple[_User, ...]:
    query = live.query
    assert query.aggregation is not None
    sides = slice_sides(query)
    if query.is_probed:
        calls = over_combinations(query).calls
        return (_User(live, sides[0], _arguments(calls, 0), selected_columns(query)),)
    return tuple(
        _User(live, side, _arguments(query.aggregation.calls, number), _read(query.relations[number].predicate))
        for number, side in enumerate(sides)
    )


def _arguments(calls: Iterable[Call], relation: int) -> tuple[tuple[Function, Expression], ...]:
    return tuple((call.function, argument) for call in calls if (argument := call.arguments[relation]) is not None)


def _read(predicate: Expression | None) -> tuple[str, ...]:
    return () if predicate is None else tuple(sorted(columns_of(predicate)))


def weave_slices(queries: Sequence[LiveQuery]) -> tuple[tuple[SliceStore, ...], tuple[SharedAggregate, ...]]:
    """The stores of slices of these queries, and what is closed from them."""
    users: dict[SliceSide, list[_User]] = defaultdict(list)
    together: dict[tuple[tuple[StoreId, ...], tuple[str, ...]], Slots] = defaultdict(lambda: NO_SLOTS)
    for live in queries:
        if live.query.aggregation is None or live.query.is_gathered:
            continue
        mine = _users(live)
        for user in mine:
            users[user.side].append(user)
        streams = tuple(sorted({relation.stream for relation in live.query.relations}))
        at = (tuple(user.side.store for user in mine), streams)
        together[at] = Slots(together[at] | 1 << live.slot)
    stores = sorted((_store(side, mine) for side, mine in users.items()), key=lambda store: store.id)
    aggregates = (SharedAggregate(places, streams, slots) for (places, streams), slots in sorted(together.items()))
    return tuple(stores), tuple(aggregates)


def _store(side: SliceSide, users: Sequence[_User]) -> SliceStore:
    return SliceStore(
        side=side,
        accumulators=_accumulators(users),
        families=_families(users),
        slots=slots_of(user.live.slot for user in users),
    )


def _accumulators(users: Iterable[_User]) -> tuple[tuple[Function, Expression], ...]:
    """What these queries accumulate, each once."""
    wanted = {(function, identity(part)): (function, part) for user in users for function, part in user.accumulated}
    return tuple(each for _, each in sorted(wanted.items()))


def _families(users: Sequence[_User]) -> tuple[SliceFamily, ...]:
    """Queries by the columns their predicates read; the few that are alone in that go with each other."""
    by_columns: dict[tuple[str, ...], list[_User]] = defaultdict(list)
    for user in users:
        by_columns[user.columns].append(user)
    rare = [each for each in by_columns.values() if len(each) < SMALLEST_FAMILY]
    found = [_family(columns, each) for columns, each in sorted(by_columns.items()) if len(each) >= SMALLEST_FAMILY]
    if rare:
        found.append(_family((), [user for each in rare for user in each]))
    return tuple(found)


def _family(columns: tuple[str, ...], users: Sequence[_User]) -> SliceFamily:
    queries = [user.live for user in users]
    slidings = {live.query.sliding for live in queries}
    sessions = {live.query.session for live in queries if live.query.session is not None}
    gaps = [to_micros(session.gap) for session in sessions]
    return SliceFamily(
        slots=slots_of(live.slot for live in queries),
        columns=columns,
        windows=tuple(sorted((to_micros(s.size), to_micros(s.slide)) for s in slidings if s is not None)),
        gap=min(gaps, default=None),
        accumulators=_accumulators(users),
        cuts=tuple(sorted({session.cut for session in sessions if session.cut is not None})),
    )
