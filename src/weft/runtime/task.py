"""What a batch does, as values that travel to the tasks: compiled once per plan, told apart per batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.kernels.predicate_index import PredicateIndex, Want, build_index, opaque_predicates
from weft.kernels.window_table import WindowEntry, WindowTable, build_window_table
from weft.optimize.weave import is_swapped, sides_of
from weft.plan.changelog import LiveQuery, Slots
from weft.plan.expression import Opaque, columns_of, guard_opaque, to_sql
from weft.plan.shared import SharedJoin, SharedPlan, Store, StoreId
from weft.plan.stream import Stream
from weft.plan.window import TimeBounds
from weft.state.bucket import Bucket


@dataclass(frozen=True, slots=True)
class RoleTag:
    """How rows of a stream in one role get their query-sets, and the stores they go to."""

    index: PredicateIndex
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True)
class StreamTag:
    """What the tag stage does with one stream."""

    stream: Stream
    columns: tuple[str, ...]
    roles: tuple[RoleTag, ...]
    opaque: tuple[Opaque, ...]
    guards: Mapping[str, tuple[tuple[int, str], ...]]
    """For each opaque key, by its text: the slots that need it, and on which rows each does."""


@dataclass(frozen=True, slots=True)
class JoinProbe:
    """A shared join with the window test of all its queries."""

    join: SharedJoin
    windows: WindowTable


@dataclass(frozen=True, slots=True)
class Program:
    """The compiled form of a shared plan: the same for every batch until the plan changes."""

    words: int
    live: Slots
    streams: Mapping[str, StreamTag]
    stores: Mapping[StoreId, Store]
    joins: tuple[JoinProbe, ...]


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One batch: where it writes, what is late, which buckets there are and what they still mean."""

    data: str
    batch: int
    attempt: str
    partitions: int
    watermarks: Mapping[str, int]
    buckets: tuple[Bucket, ...]
    masks: Mapping[int, Slots]
    merges: tuple[tuple[str, ...], ...]
    quarantine: str


def compile_program(plan: SharedPlan, streams: Mapping[str, Stream]) -> Program:
    """Compile a shared plan; pure, and fast enough to be done at every changelog."""
    live = 0
    for query in plan.queries:
        live |= 1 << query.slot
    return Program(
        words=plan.words,
        live=Slots(live),
        streams={name: _stream_tag(stream, plan) for name, stream in streams.items()},
        stores={store.id: store for store in plan.stores},
        joins=tuple(_join_probe(join, plan) for join in plan.joins),
    )


def _stream_tag(stream: Stream, plan: SharedPlan) -> StreamTag:
    wants: dict[int, list[Want]] = {}
    for live in plan.queries:
        for relation in live.query.relations:
            if relation.stream == stream.name:
                want = Want(slot=live.slot, predicate=guard_opaque(relation.predicate), start=live.record.start)
                wants.setdefault(relation.role, []).append(want)
    roles, needed, opaque = [], {stream.time}, dict[str, Opaque]()
    for role, role_wants in sorted(wants.items()):
        index = build_index(role_wants, plan.words)
        stores = tuple(store for store in plan.stores if store.stream == stream.name and store.role == role)
        roles.append(RoleTag(index, stores))
        needed |= index.columns
        for store in stores:
            needed.update(store.columns)
            keys = [part for index_ in store.indexes for part in index_.key] + list(store.route)
            for part in keys:
                needed |= columns_of(part)
            opaque |= {part.sql: part for part in keys if isinstance(part, Opaque)}
        opaque |= {part.sql: part for part in opaque_predicates(role_wants)}
    for part in opaque.values():
        needed |= columns_of(part)
    columns = tuple(name for name in stream.schema.names() if name in needed)
    return StreamTag(stream, columns, tuple(roles), tuple(opaque.values()), _key_guards(stream, plan))


def _key_guards(stream: Stream, plan: SharedPlan) -> dict[str, tuple[tuple[int, str], ...]]:
    """Alone a query computes its keys only for rows that pass its predicate, so Spark must not do more for it."""
    found: dict[str, tuple[tuple[int, str], ...]] = {}
    for live in plan.queries:
        for number, relation in enumerate(live.query.relations):
            wanted = "true" if relation.predicate is None else to_sql(relation.predicate)
            keys = [pair.right if number else pair.left for pair in live.query.keys]
            for key in keys if relation.stream == stream.name else ():
                if isinstance(key, Opaque):
                    found[key.sql] = (*found.get(key.sql, ()), (live.slot, wanted))
    return found


def _join_probe(join: SharedJoin, plan: SharedPlan) -> JoinProbe:
    entries = [_window_entry(live) for live in plan.queries if join.slots >> live.slot & 1]
    return JoinProbe(join, build_window_table(entries, plan.words))


def _window_entry(live: LiveQuery) -> WindowEntry:
    bounds = live.query.bounds
    if is_swapped(sides_of(live.query, live.record.route)):
        bounds = swap_bounds(bounds)
    return WindowEntry(slot=live.slot, bounds=bounds, sliding=live.query.sliding, start=live.record.start)


def swap_bounds(bounds: TimeBounds) -> TimeBounds:
    """The same condition seen from the other side: limits of t1 − t0."""
    low, high = bounds.low, bounds.high
    return TimeBounds(None if high is None else -high, None if low is None else -low)
