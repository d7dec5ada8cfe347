"""The shared plan of all live queries: stores, joins, selections and aggregates, each with the slots it serves."""

from __future__ import annotations

from dataclasses import dataclass

from weft.plan.aggregation import Function
from weft.plan.changelog import LiveQuery
from weft.plan.expression import Expression
from weft.plan.key import Index, IndexId, Key, StoreId
from weft.plan.probe_tree import NO_PROBES, ProbeForest
from weft.plan.slots import Slots
from weft.plan.strategy import Place, SlicedRelation, aggregate_id, join_id, session_id, store_id


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


@dataclass(frozen=True, slots=True)
class SessionJoins:
    """All session joins between the same indexes. Combinations are known only when sessions end, query by query."""

    places: tuple[Place, ...]
    slots: Slots

    @property
    def id(self) -> str:
        """Content id: names the joins in the result log."""
        return session_id(self.places)


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

    side: SlicedRelation
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


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Everything the tag and probe stages do in a batch, for all live queries at once."""

    words: int
    queries: tuple[LiveQuery, ...]
    stores: tuple[Store, ...]
    joins: tuple[SharedJoin, ...]
    session_joins: tuple[SessionJoins, ...] = ()
    slice_stores: tuple[SliceStore, ...] = ()
    aggregates: tuple[SharedAggregate, ...] = ()
    probes: ProbeForest = NO_PROBES

    def store(self, store_id: StoreId) -> Store:
        """The store of this id."""
        return next(store for store in self.stores if store.id == store_id)
