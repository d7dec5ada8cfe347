"""The shared plan of all live queries: stores, joins and aggregates, each with the slots of its queries."""

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
    """The kept rows of one stream in one role, partitioned by `route`.

    An empty `route` means that no join needs the rows: they are results of selections and never probed.
    """

    stream: str
    role: int
    route: Key
    indexes: tuple[Index, ...]
    columns: tuple[str, ...]
    slots: Slots

    @property
    def id(self) -> StoreId:
        """The content id of the store. It does not depend on the queries, so the store outlives them."""
        return store_id(self.stream, self.role, self.route)


@dataclass(frozen=True, slots=True)
class SharedJoin:
    """The join between two indexes, computed once for all queries that need it."""

    left: StoreId
    left_index: IndexId
    right: StoreId
    right_index: IndexId
    slots: Slots

    @property
    def id(self) -> str:
        """The content id of the join, which names it in the result log."""
        return join_id(self.left, self.left_index, self.right, self.right_index)


@dataclass(frozen=True, slots=True)
class SharedSessionJoin:
    """All session joins between the same indexes. Combinations are known per query, and only when sessions close."""

    places: tuple[Place, ...]
    slots: Slots

    @property
    def id(self) -> str:
        """The content id of the joins, which names them in the result log."""
        return session_id(self.places)


@dataclass(frozen=True, slots=True)
class SliceFamily:
    """Aggregating queries whose predicates read the same columns, and which therefore share cells.

    `windows` (size, slide), `gap` of sessions and `cuts` (the distances at which sessions are cut) are in microseconds.
    """

    slots: Slots
    columns: tuple[str, ...]
    windows: tuple[tuple[int, int], ...]
    gap: int | None
    accumulators: tuple[tuple[Function, Expression], ...] = ()
    """The functions that the queries accumulate, each with its argument."""
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SliceStore:
    """The cells of one stream in one role, or of combinations, by one grouping, for all queries with that grouping."""

    side: SlicedRelation
    accumulators: tuple[tuple[Function, Expression], ...]
    families: tuple[SliceFamily, ...]
    slots: Slots

    @property
    def id(self) -> StoreId:
        """The content id of the store. It depends on the grouping, not on the queries."""
        return self.side.store


@dataclass(frozen=True, slots=True)
class SharedAggregate:
    """Aggregating queries over the same stores: one store for a stream or combinations, two for an equi-join."""

    stores: tuple[StoreId, ...]
    streams: tuple[str, ...]
    slots: Slots

    @property
    def id(self) -> str:
        """The content id of the aggregate, which names it in the result log."""
        return aggregate_id(self.stores)


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Everything that the tag and probe stages of a batch do, for all live queries together."""

    words: int
    queries: tuple[LiveQuery, ...]
    stores: tuple[Store, ...]
    joins: tuple[SharedJoin, ...]
    session_joins: tuple[SharedSessionJoin, ...] = ()
    slice_stores: tuple[SliceStore, ...] = ()
    aggregates: tuple[SharedAggregate, ...] = ()
    probes: ProbeForest = NO_PROBES

    def queries_in(self, slots: Slots) -> list[LiveQuery]:
        """Return the queries in some slots."""
        return [live for live in self.queries if slots >> live.slot & 1]

    def store(self, store_id: StoreId) -> Store:
        """Return the store with this id."""
        return next(store for store in self.stores if store.id == store_id)
