"""The stores, indexes and joins that queries share.

Every join key becomes an index of a store, and a store is partitioned by its route. If one part of a composite key is
already a route, the rows are stored by that route, so that both keys share one store and one shuffle (`choose_route`
in `planner/strategy.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from weft.plan.changelog import LiveQuery
from weft.plan.expression import Column
from weft.plan.key import Index, StoreId, key_text
from weft.plan.probe_tree import TIME_ROUTE, Input, inputs_of
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedJoin, SharedSessionJoin, Store
from weft.plan.slots import NO_SLOTS, Slots
from weft.plan.strategy import (
    EquiJoin,
    FactoredAggregate,
    Place,
    ProbeAggregate,
    ProbeJoin,
    Selection,
    SessionAggregate,
    SessionJoin,
    SliceAggregate,
    StoredRelation,
    Strategy,
    store_id,
)
from weft.plan.stream import Stream
from weft.planner.join_aggregates import aggregated_columns
from weft.planner.joins.normal_form import condition_columns, indexes_of


def stored_relations(strategy: Strategy) -> tuple[StoredRelation, ...]:
    """Return the relations whose rows a query stores; () for aggregates that accumulate rows on arrival."""
    match strategy:
        case Selection(relation):
            return (relation,)
        case EquiJoin() | ProbeJoin() | SessionJoin():
            return strategy.relations
        case ProbeAggregate(join) | SessionAggregate(join):
            return join.relations
        case SliceAggregate() | FactoredAggregate():
            return ()
        case _:
            assert_never(strategy)


def probed_stores(queries: Iterable[LiveQuery]) -> dict[Input, StoreId]:
    """Return the store of each input that probe trees visit."""
    probed = (live for live in queries if isinstance(live.strategy, ProbeJoin | ProbeAggregate))
    inputs = {input_ for live in probed for input_ in inputs_of(live.query)}
    return {input_: store_id(input_.stream, input_.role, TIME_ROUTE) for input_ in sorted(inputs)}


def plan_stores(
    queries: Sequence[LiveQuery], streams: Mapping[str, Stream]
) -> tuple[tuple[Store, ...], tuple[SharedJoin, ...], tuple[SharedSessionJoin, ...]]:
    """Return the stores of rows that the queries share, the joins between two stores, and the session joins."""
    stores: dict[StoreId, _StoreDraft] = {}
    joins: dict[tuple[StoredRelation, StoredRelation], Slots] = defaultdict(lambda: NO_SLOTS)
    sessions: dict[tuple[Place, ...], Slots] = defaultdict(lambda: NO_SLOTS)
    for live in queries:
        for number, relation in enumerate(stored_relations(live.strategy)):
            stores.setdefault(relation.store, _StoreDraft(relation)).add(live, number, relation.index)
        match live.strategy:
            case EquiJoin(sides=sides):
                joins[sides] = Slots(joins[sides] | 1 << live.slot)
            case SessionJoin(places=places) | SessionAggregate(join=SessionJoin(places=places)):
                sessions[places] = Slots(sessions[places] | 1 << live.slot)
            case _:
                pass  # planned in planner/joins and planner/aggregates.py
    return (
        tuple(stores[key].build(streams) for key in sorted(stores)),
        tuple(_join(sides, slots) for sides, slots in sorted(joins.items(), key=_join_order)),
        tuple(SharedSessionJoin(places, slots) for places, slots in sorted(sessions.items())),
    )


@dataclass(slots=True)
class _StoreDraft:
    """A store under construction, to which queries are added one by one."""

    relation: StoredRelation
    slots: Slots = NO_SLOTS
    columns: set[str] = field(default_factory=set)
    indexes: dict[str, Index] = field(default_factory=dict)

    def add(self, live: LiveQuery, number: int, index: Index | None) -> None:
        """Add a query whose relation `number` is in this store, with the columns and indexes that it needs."""
        query = live.query
        self.slots = Slots(self.slots | 1 << live.slot)
        self.columns.update(query.relations[number].columns)
        self.columns.update(condition_columns(query, number))
        if index is not None:
            self._add_index(index)
        if isinstance(live.strategy, ProbeAggregate | SessionAggregate):
            self.columns.update(aggregated_columns(query, number))
        if isinstance(live.strategy, ProbeJoin | ProbeAggregate):
            self._add_probed(query, number)

    def _add_probed(self, query: BoundQuery, number: int) -> None:
        for index in indexes_of(query, number).values():
            self._add_index(index)

    def _add_index(self, index: Index) -> None:
        self.indexes[key_text(index.key)] = index
        if not index.exact:
            self.columns.update(part.name for part in index.key if isinstance(part, Column))

    def build(self, streams: Mapping[str, Stream]) -> Store:
        """Return the finished store."""
        relation = self.relation
        return Store(
            stream=relation.stream,
            role=relation.role,
            route=relation.route,
            indexes=tuple(index for _, index in sorted(self.indexes.items())),
            columns=tuple(name for name in streams[relation.stream].schema.names() if name in self.columns),
            slots=self.slots,
        )


def _join_order(item: tuple[tuple[StoredRelation, StoredRelation], Slots]) -> tuple[object, ...]:
    (left, right), _ = item
    return (left.order, right.order)


def _join(sides: tuple[StoredRelation, StoredRelation], slots: Slots) -> SharedJoin:
    left, right = sides
    return SharedJoin(*left.place, *right.place, slots)
