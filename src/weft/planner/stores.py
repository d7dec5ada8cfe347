"""Weave live queries into one shared plan: who shares which store, index and join.

Every key a query joins on becomes an index; every index lives in a store partitioned by its route. A composite key
one part of which is already a route on both streams travels with it, so both share one store and one shuffle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from weft.plan.changelog import NO_SLOTS, LiveQuery, Slots, slots_of, words_for
from weft.plan.expression import Column
from weft.plan.identity import identity
from weft.plan.key import Index, Key, StoreId, is_exact, key_text
from weft.plan.probe_tree import NO_PROBES, TIME_ROUTE, Input, ProbeForest, inputs_of
from weft.plan.query import BoundQuery, KeyPair
from weft.plan.shared import Place, SessionJoin, SharedJoin, SharedPlan, Store, store_id
from weft.plan.stream import Stream
from weft.planner.aggregates import slice_sides, weave_slices
from weft.planner.join_aggregates import aggregated_columns
from weft.planner.joins.normal_form import condition_columns, indexes_of
from weft.planner.session_joins import session_indexes


@dataclass(frozen=True, slots=True)
class Side:
    """One relation of one query: where its rows are stored and by which index they are met."""

    stream: str
    role: int
    route: Key
    index: Index | None

    @property
    def store(self) -> StoreId:
        """The store the rows are in."""
        return store_id(self.stream, self.role, self.route)

    @property
    def order(self) -> tuple[str, int, str, str]:
        """A fixed order of sides, so that a ⋈ b and b ⋈ a are one join."""
        return (self.stream, self.role, key_text(self.route), key_text(self.index.key) if self.index else "")


Equality = tuple[tuple[str, int, str], ...]
"""Two sides (stream, role, key) that are joined, whichever a query names first."""


def routes_of(live: Iterable[LiveQuery]) -> set[Equality]:
    """Equalities that some query's rows are partitioned by, alone."""
    return {
        _equality(each.query, each.query.keys[each.record.route[0]])
        for each in live
        if len(each.record.route) == 1 and each.query.aggregation is None and not each.query.is_wide
    }


def choose_route(query: BoundQuery, routes: Set[Equality]) -> tuple[int, ...]:
    """Positions of the keys a new query's rows are partitioned by: one that is a route already, else all."""
    if query.is_wide:
        return ()
    shared = (at for at, pair in enumerate(query.keys) if _equality(query, pair) in routes)
    first = next(shared, None)
    return tuple(range(len(query.keys))) if first is None else (first,)


def sides_of(query: BoundQuery, route: tuple[int, ...]) -> tuple[Side, ...]:
    """Where each relation of a query is stored, in the order of its relations."""
    if query.is_probed:
        return tuple(Side(relation.stream, relation.role, TIME_ROUTE, None) for relation in query.relations)
    if len(query.relations) == 1:
        relation = query.relations[0]
        return (Side(relation.stream, relation.role, (), None),)
    exact = is_exact(tuple(pair.type for pair in query.keys))
    if query.is_gathered:
        return tuple(
            Side(relation.stream, relation.role, index.key, index)
            for relation, index in zip(query.relations, session_indexes(query), strict=True)
        )
    left, right = query.relations
    lefts, rights = (tuple(p.left for p in query.keys), tuple(p.right for p in query.keys))
    return (
        Side(left.stream, left.role, tuple(lefts[at] for at in route), Index(lefts, exact)),
        Side(right.stream, right.role, tuple(rights[at] for at in route), Index(rights, exact)),
    )


def places_of(live: LiveQuery) -> tuple[StoreId, ...]:
    """The stores of a query's relations, of rows or of slices; over combinations of rows, then one of slices."""
    grouped = live.query.aggregation is not None and not live.query.is_gathered
    slices = tuple(side.store for side in slice_sides(live.query)) if grouped else ()
    if slices and not live.query.is_probed:
        return slices
    return (*(side.store for side in sides_of(live.query, live.record.route)), *slices)


def probed_stores(queries: Iterable[LiveQuery]) -> dict[Input, StoreId]:
    """The stores of all inputs that probe trees visit."""
    inputs = {each for live in queries if live.query.is_probed for each in inputs_of(live.query)}
    return {each: store_id(each.stream, each.role, TIME_ROUTE) for each in sorted(inputs)}


def is_swapped(sides: tuple[Side, ...]) -> bool:
    """Whether the shared join has relation 1 of the query on its left."""
    return len(sides) > 1 and sides[0].order > sides[1].order


def session_places(sides: tuple[Side, ...]) -> tuple[Place, ...]:
    """What a session join is of, in the fixed order of sides."""
    ordered = sorted(sides, key=lambda side: side.order)
    return tuple((side.store, side.index.id) for side in ordered if side.index is not None)


def weave(
    queries: Sequence[LiveQuery], streams: Mapping[str, Stream], *, probes: ProbeForest = NO_PROBES
) -> SharedPlan:
    """The shared plan of these queries; `probes` are the probe trees of those that need them."""
    stores: dict[StoreId, _StoreDraft] = {}
    joins: dict[tuple[Side, Side], Slots] = defaultdict(lambda: NO_SLOTS)
    sessions: dict[tuple[Place, ...], Slots] = defaultdict(lambda: NO_SLOTS)
    for live in queries:
        if live.query.aggregation is not None and not live.query.is_wide:
            continue
        sides = sides_of(live.query, live.record.route)
        for number, (relation, side) in enumerate(zip(live.query.relations, sides, strict=True)):
            draft = stores.setdefault(side.store, _StoreDraft(side))
            draft.add(live.slot, side.index, relation.columns)
            if live.query.is_wide:
                draft.add_wide(live.query, number)
        if len(sides) > 1 and live.query.session is not None:
            places = session_places(sides)
            sessions[places] = Slots(sessions[places] | 1 << live.slot)
        elif len(sides) > 1 and not live.query.is_probed:
            edge = (sides[1], sides[0]) if is_swapped(sides) else (sides[0], sides[1])
            joins[edge] = Slots(joins[edge] | 1 << live.slot)
    slice_stores, aggregates = weave_slices(queries)
    return SharedPlan(
        words=words_for(slots_of(live.slot for live in queries)),
        queries=tuple(queries),
        stores=tuple(stores[key].build(streams) for key in sorted(stores)),
        joins=tuple(_join(edge, slots) for edge, slots in sorted(joins.items(), key=_edge_order)),
        session_joins=tuple(SessionJoin(places, slots) for places, slots in sorted(sessions.items())),
        slice_stores=slice_stores,
        aggregates=aggregates,
        probes=probes,
    )


@dataclass(slots=True)
class _StoreDraft:
    """A store while the queries that use it are gathered."""

    side: Side
    slots: Slots = NO_SLOTS
    columns: set[str] = field(default_factory=set)
    indexes: dict[str, Index] = field(default_factory=dict)

    def add(self, slot: int, index: Index | None, columns: tuple[str, ...]) -> None:
        self.slots = Slots(self.slots | 1 << slot)
        self.columns.update(columns)
        if index is not None:
            self._index(index)

    def add_wide(self, query: BoundQuery, relation: int) -> None:
        self.columns.update(condition_columns(query, relation))
        if query.aggregation is not None:
            self.columns.update(aggregated_columns(query, relation))
        for index in indexes_of(query, relation).values() if query.is_probed else ():
            self._index(index)

    def _index(self, index: Index) -> None:
        self.indexes[key_text(index.key)] = index
        if not index.exact:
            self.columns.update(part.name for part in index.key if isinstance(part, Column))

    def build(self, streams: Mapping[str, Stream]) -> Store:
        return Store(
            stream=self.side.stream,
            role=self.side.role,
            route=self.side.route,
            indexes=tuple(index for _, index in sorted(self.indexes.items())),
            columns=tuple(name for name in streams[self.side.stream].schema.names() if name in self.columns),
            slots=self.slots,
        )


def _equality(query: BoundQuery, pair: KeyPair) -> Equality:
    sides = zip(query.relations, (pair.left, pair.right), strict=True)
    return tuple(sorted((relation.stream, relation.role, identity(key)) for relation, key in sides))


def _edge_order(item: tuple[tuple[Side, Side], Slots]) -> tuple[object, ...]:
    (left, right), _ = item
    return (left.order, right.order)


def _join(edge: tuple[Side, Side], slots: Slots) -> SharedJoin:
    left, right = edge
    assert left.index is not None and right.index is not None
    return SharedJoin(left.store, left.index.id, right.store, right.index.id, slots)
