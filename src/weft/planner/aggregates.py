"""Planning of aggregating queries: which queries share a slice store, and which families they form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, assert_never

from weft.plan.aggregation import AggregateCall, Function
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
"""Fewer queries than this form no family of their own, because each family costs a pass over the rows."""


def sliced_relations(strategy: Strategy) -> tuple[SlicedRelation, ...]:
    """Return the relations that the strategy accumulates in shared slice stores; () for all other strategies."""
    match strategy:
        case SliceAggregate() | FactoredAggregate() | ProbeAggregate():
            return strategy.slices
        case Selection() | EquiJoin() | ProbeJoin() | SessionJoin() | SessionAggregate():
            return ()
        case _:
            assert_never(strategy)


def session_slices(live: LiveQuery, strategy: SessionAggregate) -> SliceStore:
    """Return the slice store in which a session aggregate accumulates its combinations: every window is one slice."""
    (sliced,) = strategy.slices
    accumulators = _accumulators([_User(live, sliced, _arguments(over_combinations(live.query).calls, 0), ())])
    slots = slot_set((live.slot,))
    return SliceStore(sliced, accumulators, (SliceFamily(slots, (), ((1, 1),), None, accumulators),), slots)


class _User(NamedTuple):
    """A query's use of one slice store."""

    live: LiveQuery
    side: SlicedRelation
    accumulated: tuple[tuple[Function, Expression], ...]
    columns: tuple[str, ...]
    """The columns that the query's predicates read."""


def _users(live: LiveQuery) -> tuple[_User, ...]:
    """Return a query's use of each of its slice stores."""
    query, sliced = live.query, sliced_relations(live.strategy)
    if isinstance(live.strategy, ProbeAggregate):
        calls = over_combinations(query).calls
        return (_User(live, sliced[0], _arguments(calls, 0), selected_columns(query)),)
    calls = () if query.aggregation is None else query.aggregation.calls
    return tuple(
        _User(live, side, _arguments(calls, number), _read(query.relations[number].predicate))
        for number, side in enumerate(sliced)
    )


def _arguments(calls: Iterable[AggregateCall], relation: int) -> tuple[tuple[Function, Expression], ...]:
    return tuple((call.function, argument) for call in calls if (argument := call.arguments[relation]) is not None)


def _read(predicate: Expression | None) -> tuple[str, ...]:
    return () if predicate is None else tuple(sorted(columns_of(predicate)))


def plan_aggregates(queries: Sequence[LiveQuery]) -> tuple[tuple[SliceStore, ...], tuple[SharedAggregate, ...]]:
    """Return the slice stores of the queries, and the shared aggregates that close windows over them."""
    users: dict[SlicedRelation, list[_User]] = defaultdict(list)
    slots_of: dict[tuple[tuple[StoreId, ...], tuple[str, ...]], Slots] = defaultdict(lambda: NO_SLOTS)
    for live in queries:
        query_users = _users(live)
        if not query_users:
            continue
        for user in query_users:
            users[user.side].append(user)
        streams = tuple(sorted({relation.stream for relation in live.query.relations}))
        key = (tuple(user.side.store for user in query_users), streams)
        slots_of[key] = Slots(slots_of[key] | 1 << live.slot)
    stores = sorted((_store(side, side_users) for side, side_users in users.items()), key=lambda store: store.id)
    aggregates = (SharedAggregate(places, streams, slots) for (places, streams), slots in sorted(slots_of.items()))
    return tuple(stores), tuple(aggregates)


def _store(side: SlicedRelation, users: Sequence[_User]) -> SliceStore:
    return SliceStore(
        side=side,
        accumulators=_accumulators(users),
        families=_families(users),
        slots=slot_set(user.live.slot for user in users),
    )


def _accumulators(users: Iterable[_User]) -> tuple[tuple[Function, Expression], ...]:
    """Return the distinct accumulators of these queries."""
    distinct = {(function, identity(part)): (function, part) for user in users for function, part in user.accumulated}
    return tuple(accumulator for _, accumulator in sorted(distinct.items()))


def _families(users: Sequence[_User]) -> tuple[SliceFamily, ...]:
    """Group queries by the columns that their predicates read; the queries of all small groups form one family."""
    groups: dict[tuple[str, ...], list[_User]] = defaultdict(list)
    for user in users:
        groups[user.columns].append(user)
    rare = [group for group in groups.values() if len(group) < SMALLEST_FAMILY]
    families = [_family(columns, group) for columns, group in sorted(groups.items()) if len(group) >= SMALLEST_FAMILY]
    if rare:
        families.append(_family((), [user for group in rare for user in group]))
    return tuple(families)


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
