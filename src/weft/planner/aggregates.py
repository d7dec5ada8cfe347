"""Weave aggregating queries: who shares which store of slices, and which queries are classed together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, assert_never

from weft.plan.aggregation import Call, Function
from weft.plan.changelog import LiveQuery
from weft.plan.expression import Expression, columns_of
from weft.plan.identity import identity
from weft.plan.key import StoreId
from weft.plan.shared import SharedAggregate, SliceFamily, SliceStore
from weft.plan.slots import NO_SLOTS, Slots, slot_set
from weft.plan.strategy import (
    EquiJoin,
    FactoredAggregate,
    ProbeAggregate,
    ProbeJoin,
    Selection,
    SessionAggregate,
    SessionJoin,
    SliceAggregate,
    SlicedRelation,
    Strategy,
)
from weft.plan.window import to_micros
from weft.planner.join_aggregates import over_combinations, selected_columns

SMALLEST_FAMILY = 3
"""Fewer queries than this are not worth a pass over the rows of their own."""


def sliced_relations(strategy: Strategy) -> tuple[SlicedRelation, ...]:
    """Where an aggregating query accumulates into stores of slices; empty for all other queries."""
    match strategy:
        case SliceAggregate() | FactoredAggregate() | ProbeAggregate():
            return strategy.slices
        case Selection() | EquiJoin() | ProbeJoin() | SessionJoin() | SessionAggregate():
            return ()
        case _:
            assert_never(strategy)


def session_slices(live: LiveQuery, strategy: SessionAggregate) -> SliceStore:
    """What an aggregating query accumulates of the combinations of its sessions: every window is a slice of its own."""
    (sliced,) = strategy.slices
    wanted = _accumulators([_User(live, sliced, _arguments(over_combinations(live.query).calls, 0), ())])
    slots = slot_set((live.slot,))
    return SliceStore(sliced, wanted, (SliceFamily(slots, (), ((1, 1),), None, wanted),), slots)


class _User(NamedTuple):
    """A query and what it accumulates on one side."""

    live: LiveQuery
    side: SlicedRelation
    accumulated: tuple[tuple[Function, Expression], ...]
    columns: tuple[str, ...]
    """What its predicates read there."""


def _users(live: LiveQuery) -> tuple[_User, ...]:
    """What a query accumulates in each of its stores of slices."""
    query, sliced = live.query, sliced_relations(live.strategy)
    if isinstance(live.strategy, ProbeAggregate):
        calls = over_combinations(query).calls
        return (_User(live, sliced[0], _arguments(calls, 0), selected_columns(query)),)
    calls = () if query.aggregation is None else query.aggregation.calls
    return tuple(
        _User(live, each, _arguments(calls, number), _read(query.relations[number].predicate))
        for number, each in enumerate(sliced)
    )


def _arguments(calls: Iterable[Call], relation: int) -> tuple[tuple[Function, Expression], ...]:
    return tuple((call.function, argument) for call in calls if (argument := call.arguments[relation]) is not None)


def _read(predicate: Expression | None) -> tuple[str, ...]:
    return () if predicate is None else tuple(sorted(columns_of(predicate)))


def plan_aggregates(queries: Sequence[LiveQuery]) -> tuple[tuple[SliceStore, ...], tuple[SharedAggregate, ...]]:
    """The stores of slices of these queries, and what is closed from them."""
    users: dict[SlicedRelation, list[_User]] = defaultdict(list)
    together: dict[tuple[tuple[StoreId, ...], tuple[str, ...]], Slots] = defaultdict(lambda: NO_SLOTS)
    for live in queries:
        mine = _users(live)
        if not mine:
            continue
        for user in mine:
            users[user.side].append(user)
        streams = tuple(sorted({relation.stream for relation in live.query.relations}))
        at = (tuple(user.side.store for user in mine), streams)
        together[at] = Slots(together[at] | 1 << live.slot)
    stores = sorted((_store(side, mine) for side, mine in users.items()), key=lambda store: store.id)
    aggregates = (SharedAggregate(places, streams, slots) for (places, streams), slots in sorted(together.items()))
    return tuple(stores), tuple(aggregates)


def _store(side: SlicedRelation, users: Sequence[_User]) -> SliceStore:
    return SliceStore(
        side=side,
        accumulators=_accumulators(users),
        families=_families(users),
        slots=slot_set(user.live.slot for user in users),
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
        slots=slot_set(live.slot for live in queries),
        columns=columns,
        windows=tuple(sorted((to_micros(s.size), to_micros(s.slide)) for s in slidings if s is not None)),
        gap=min(gaps, default=None),
        accumulators=_accumulators(users),
        cuts=tuple(sorted({session.cut for session in sessions if session.cut is not None})),
    )
