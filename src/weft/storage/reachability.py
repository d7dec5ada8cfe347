"""Which buckets a future row can still meet: the rest is garbage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from weft.plan.changelog import LiveQuery, QueryId
from weft.plan.idle_streams import gives_way, streams_of
from weft.plan.key import StoreId
from weft.plan.probe_tree import StoredJoin, inputs_of
from weft.plan.query import BoundQuery
from weft.plan.slots import Slots
from weft.plan.strategy import (
    EquiJoin,
    FactoredAggregate,
    ProbeAggregate,
    ProbeJoin,
    Selection,
    SessionAggregate,
    SessionJoin,
    SliceAggregate,
    Strategy,
)
from weft.plan.time import TIME_MAX
from weft.plan.window import to_micros
from weft.storage.bucket import Bucket

Horizons = Mapping[StoreId, Sequence[tuple[int | None, Slots]]]
"""Per store: slots by the oldest event time they can still meet; None when they can meet any."""


def horizons(
    queries: Iterable[LiveQuery],
    stores: Mapping[QueryId, tuple[StoreId, ...]],
    watermarks: Mapping[str, int],
    closed: Mapping[tuple[str, ...], int] | None = None,
    *,
    stored: Iterable[StoredJoin] = (),
) -> Horizons:
    """How far back each live query reaches in each of its stores.

    `stores` gives the stores of a query's relations by query id. A stored tuple of a relation is met by future tuples
    of the others, which are not older than their streams' watermarks, nor than what the query has passed. Aggregation
    reaches back to the windows that have not ended: `closed` says up to where they are, by streams; None stands for
    time zero, to see how long reaches are. Intermediate results (`stored`) reach as far back as their tuples. Sessions
    can go on for ever; which do is known only to those who look (`Manifest.open`).
    """
    found: dict[StoreId, dict[int | None, int]] = defaultdict(lambda: defaultdict(int))
    for live in queries:
        met, slices = _kinds(live.strategy, stores[live.record.id])
        for store in slices:
            found[store][_windows_reach(live.query, closed)] |= 1 << live.slot
        if len(live.query.relations) > 1:
            reached = _reached(live, watermarks, closed or {})
            for number, store in enumerate(met):
                found[store][_oldest_met(live.query, number, reached)] |= 1 << live.slot
            for each in (each for each in stored if each.slots >> live.slot & 1):
                found[each.id][_oldest_combined(live.query, each, reached)] |= 1 << live.slot
    return {store: [(oldest, Slots(mask)) for oldest, mask in rows.items()] for store, rows in found.items()}


def _kinds(strategy: Strategy, stores: Sequence[StoreId]) -> tuple[Sequence[StoreId], Sequence[StoreId]]:
    """The stores of a query that are needed while rows can meet, and those that are needed until windows have ended."""
    match strategy:
        case Selection() | EquiJoin() | ProbeJoin():
            return stores, ()
        case ProbeAggregate():
            return stores[:-1], stores[-1:]
        case SessionJoin() | SliceAggregate() | FactoredAggregate() | SessionAggregate():
            return (), stores
        case _:
            assert_never(strategy)


def _reached(
    live: LiveQuery, watermarks: Mapping[str, int], closed: Mapping[tuple[str, ...], int]
) -> Mapping[str, int]:  # fmt: skip
    """How old a future tuple of each stream can be that meets anything stored: an idle stream holds nothing back."""
    passed = closed.get(names := streams_of(live.query)) if closed else None
    if passed is None or all(name in watermarks and watermarks[name] >= passed for name in names):
        return watermarks  # as usual: nobody is idle
    raised = {name: max(passed, watermarks.get(name, passed)) for name in names if gives_way(live, name)}
    return {**watermarks, **raised}


def _oldest_met(query: BoundQuery, relation: int, watermarks: Mapping[str, int]) -> int | None:
    """How old a tuple of a relation can be and still meet a future one of some other relation."""
    oldest = []
    for other, each in enumerate(query.relations):
        if other != relation:
            reach, newest_late = query.reach_back(relation, other), watermarks.get(each.stream)
            if reach is None or newest_late is None:
                return None
            oldest.append(newest_late - reach)
    return min(oldest)


def _oldest_combined(query: BoundQuery, stored: StoredJoin, watermarks: Mapping[str, int]) -> int | None:
    """The same for intermediate results, whose time is that of their oldest tuple."""
    inputs = inputs_of(query)
    oldest = [_oldest_met(query, inputs.index(each), watermarks) for each in stored.inputs]
    return None if None in oldest else min(each for each in oldest if each is not None)


_NOTHING = TIME_MAX + 1
"""Later than any event time: nothing is reached."""


def _windows_reach(query: BoundQuery, closed: Mapping[tuple[str, ...], int] | None) -> int | None:
    if query.sliding is None:
        return None if closed is None else _NOTHING
    size = to_micros(query.sliding.size)
    if closed is None:
        return -size
    ended = closed.get(streams_of(query))
    return None if ended is None else ended - size


def is_reachable(bucket: Bucket, meaning: Slots, limits: Horizons, retained_from: int | None) -> bool:
    """Whether a live query, or the stream's retain period, can still reach a row of the bucket."""
    newest = bucket.max_time
    if retained_from is not None and newest >= retained_from:
        return True
    wanted = bucket.slots & meaning
    return any(
        wanted & slots and (oldest is None or newest >= oldest) for oldest, slots in limits.get(bucket.store, ())
    )
