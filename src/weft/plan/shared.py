"""The shared plan of all live queries: stores, joins, selections and aggregates, each with the slots it serves."""

from __future__ import annotations

from dataclasses import dataclass

from weft.plan.aggregation import Function
from weft.plan.changelog import LiveQuery, Slots
from weft.plan.expression import Expression
from weft.plan.key import Index, IndexId, Key, StoreId, content_id, key_text
from weft.plan.probe_tree import NO_PROBES, ProbeForest


def store_id(stream: str, role: int, route: Key) -> StoreId:
    """Identity of a store: equal routing of the same stream and role is one store."""
    return StoreId(content_id(stream, str(role), key_text(route)))


@dataclass(frozen=True, slots=True)
class Store:
    """Rows of one stream in one role, partitioned by `route`.

    `route` empty means no join needs them: such rows are the result of selections and are never probed.
    """

    stream: str
    role: int
    route: Key
    indexes: tuple[Index, ...]
    columns: tuple[str, ...]
    slots: Slots

    @property
    def id(self) -> StoreId:
        """Content id by what is stored, not by who uses it, so that it lives on as queries come and go."""
        return store_id(self.stream, self.role, self.route)


@dataclass(frozen=True, slots=True)
class SharedJoin:
    """All joins between two indexes, done once for every query that needs them."""

    left: StoreId
    left_index: IndexId
    right: StoreId
    right_index: IndexId
    slots: Slots

    @property
    def id(self) -> str:
        """Content id: names the join in the result log."""
        return join_id(self.left, self.left_index, self.right, self.right_index)


def join_id(left: StoreId, left_index: IndexId, right: StoreId, right_index: IndexId) -> str:
    """Identity of a shared join by what it joins."""
    return content_id(left, left_index, right, right_index)


Place = tuple[StoreId, IndexId]
"""A store, and by which of its indexes it is joined."""


def session_id(places: tuple[Place, ...]) -> str:
    """Identity of session joins between some indexes, in their fixed order."""
    return content_id("session", *(part for place in places for part in place))


@dataclass(frozen=True, slots=True)
class SessionJoin:
    """Session-window joins of two stores or more: combinations are known only when sessions end, query by query."""

    places: tuple[Place, ...]
    slots: Slots

    @property
    def id(self) -> str:
        """Content id: names the joins in the result log."""
        return session_id(self.places)


@dataclass(frozen=True, slots=True)
class SliceSide:
    """Where one relation of an aggregating query accumulates: fixed for life, by what it groups.

    `keys` are its group keys; over a join they begin with the join keys, by which the store is partitioned (`route`
    of them; rows with a NULL among those are left out if `joined`). With a `source` it accumulates the combinations
    that probe trees find under this name, cell by whole window; then `stream` is just one of their streams.
    """

    stream: str
    role: int
    keys: Key
    route: int
    joined: bool
    session: bool
    source: str = ""

    @property
    def store(self) -> StoreId:
        """The store of slices: equal grouping of the same stream and role, or of the same combinations, is one."""
        if self.source:
            return StoreId(content_id("windows", self.source, key_text(self.keys)))
        kind = ("slices", "joined" if self.joined else "", "session" if self.session else "", str(self.route))
        return StoreId(content_id(*kind, self.stream, str(self.role), key_text(self.keys)))


@dataclass(frozen=True, slots=True)
class SliceFamily:
    """Queries whose predicates read the same columns; `windows` (size, slide), `gap` and `cuts`, by which sessions are
    cut, in microseconds."""

    slots: Slots
    columns: tuple[str, ...]
    windows: tuple[tuple[int, int], ...]
    gap: int | None
    accumulators: tuple[tuple[Function, Expression], ...] = ()
    """What its queries accumulate."""
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SliceStore:
    """Partial aggregates of one stream in one role, or of combinations, by one grouping, for all who want it."""

    side: SliceSide
    accumulators: tuple[tuple[Function, Expression], ...]
    families: tuple[SliceFamily, ...]
    slots: Slots

    @property
    def id(self) -> StoreId:
        """Content id: by what is grouped, not by who uses it."""
        return self.side.store


@dataclass(frozen=True, slots=True)
class SharedAggregate:
    """Aggregating queries over the same stores: one for a stream or combinations, two for a join by equalities."""

    stores: tuple[StoreId, ...]
    streams: tuple[str, ...]
    slots: Slots

    @property
    def id(self) -> str:
        """Content id: names the aggregate in the result log."""
        return aggregate_id(self.stores)


def aggregate_id(stores: tuple[StoreId, ...]) -> str:
    """Identity of a shared aggregate by its stores."""
    return content_id("aggregate", *stores)


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Everything the tag and probe stages do in a batch, for all live queries at once."""

    words: int
    queries: tuple[LiveQuery, ...]
    stores: tuple[Store, ...]
    joins: tuple[SharedJoin, ...]
    session_joins: tuple[SessionJoin, ...] = ()
    slice_stores: tuple[SliceStore, ...] = ()
    aggregates: tuple[SharedAggregate, ...] = ()
    probes: ProbeForest = NO_PROBES

    def store(self, store_id: StoreId) -> Store:
        """The store of this id."""
        return next(store for store in self.stores if store.id == store_id)
