"""Which buckets future rows or open windows can still need. All other buckets are garbage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from weft.plan.changelog import LiveQuery, QueryId
from weft.plan.idle_streams import frees_despite_idle, streams_of
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
"""Per store: the oldest event time still needed (None: any event time), and the slots that need it."""


def horizons(
    queries: Iterable[LiveQuery],
    stores: Mapping[QueryId, tuple[StoreId, ...]],
    watermarks: Mapping[str, int],
    closed: Mapping[tuple[str, ...], int] | None = None,
    *,
    stored: Iterable[StoredJoin] = (),
) -> Horizons:
    """Return how far back in event time each live query reaches in each of its stores.

    `stores` maps a query to the stores of its relations. A stored row of one relation can only meet future rows of the
    others, which are no older than their streams' watermarks, nor than the time that the query has passed. Aggregates
    reach back to windows that are still open. `closed` says, by streams, up to where windows are closed; with None,
    times are relative to zero, which gives the length of each reach. A stored join (`stored`) reaches as far back as
    its rows. Open sessions have no bounded reach; `Manifest.open` names their files.
    """
    masks: dict[StoreId, dict[int | None, int]] = defaultdict(lambda: defaultdict(int))
    for live in queries:
        joined, windowed = _kinds(live.strategy, stores[live.record.id])
        for store in windowed:
            masks[store][_windows_reach(live.query, closed)] |= 1 << live.slot
        if len(live.query.relations) > 1:
            reached = _reached(live, watermarks, closed or {})
            for number, store in enumerate(joined):
                masks[store][_oldest_met(live.query, number, reached)] |= 1 << live.slot
            for join in (join for join in stored if join.slots >> live.slot & 1):
                masks[join.id][_oldest_combined(live.query, join, reached)] |= 1 << live.slot
    return {store: [(oldest, Slots(mask)) for oldest, mask in by_oldest.items()] for store, by_oldest in masks.items()}


def _kinds(strategy: Strategy, stores: Sequence[StoreId]) -> tuple[Sequence[StoreId], Sequence[StoreId]]:
    """Return the stores needed while future rows can meet theirs, and the stores needed until windows close."""
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
    """Return, by stream, the oldest event time of future rows that can meet stored rows. Idle streams are skipped."""
    passed = closed.get(names := streams_of(live.query)) if closed else None
    if passed is None or all(name in watermarks and watermarks[name] >= passed for name in names):
        return watermarks  # no stream is idle
    raised = {name: max(passed, watermarks.get(name, passed)) for name in names if frees_despite_idle(live, name)}
    return {**watermarks, **raised}


def _oldest_met(query: BoundQuery, relation: int, watermarks: Mapping[str, int]) -> int | None:
    """Return the oldest event time of a row of a relation that can still meet a future row of another; None: any."""
    oldest = []
    for other, partner in enumerate(query.relations):
        if other != relation:
            reach, watermark = query.reach_back(relation, other), watermarks.get(partner.stream)
            if reach is None or watermark is None:
                return None
            oldest.append(watermark - reach)
    return min(oldest)


def _oldest_combined(query: BoundQuery, stored: StoredJoin, watermarks: Mapping[str, int]) -> int | None:
    """Like `_oldest_met`, for the combinations of a stored join. Their time is that of their oldest row."""
    inputs = inputs_of(query)
    oldest = [_oldest_met(query, inputs.index(input_), watermarks) for input_ in stored.inputs]
    return None if None in oldest else min(time for time in oldest if time is not None)


_NOTHING = TIME_MAX + 1
"""A time later than any event time: no row is reached."""


def _windows_reach(query: BoundQuery, closed: Mapping[tuple[str, ...], int] | None) -> int | None:
    if query.sliding is None:
        return None if closed is None else _NOTHING
    size = to_micros(query.sliding.size)
    if closed is None:
        return -size
    closed_until = closed.get(streams_of(query))
    return None if closed_until is None else closed_until - size


def is_reachable(bucket: Bucket, meaning: Slots, limits: Horizons, retained_from: int | None) -> bool:
    """Return whether a live query or the stream's retain period still reaches a row of the bucket."""
    newest = bucket.max_time
    if retained_from is not None and newest >= retained_from:
        return True
    wanted = bucket.slots & meaning
    return any(
        wanted & slots and (oldest is None or newest >= oldest) for oldest, slots in limits.get(bucket.store, ())
    )
