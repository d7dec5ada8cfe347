"""How a query runs: one of a closed union of strategies, chosen once and kept for as long as the query lives.

`planner/strategy.py` chooses the strategy when the query is created. The planner, the compiler, readers, garbage
collection and explanations match on the strategy. Its `stores` are the stores of the query's rows, and its `result` is
the id of the query's rows in the result log. Both are written to the query's record.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.plan.key import Index, IndexId, Key, StoreId, content_id, key_text

Place = tuple[StoreId, IndexId]
"""A store and the index by which its rows are joined."""


def store_id(stream: str, role: int, route: Key) -> StoreId:
    """Return the id of a store. Rows of the same stream and role with the same route are in one store."""
    return StoreId(content_id(stream, str(role), key_text(route)))


def join_id(left: StoreId, left_index: IndexId, right: StoreId, right_index: IndexId) -> str:
    """Return the id of the shared join of two indexes."""
    return content_id(left, left_index, right, right_index)


def session_id(places: tuple[Place, ...]) -> str:
    """Return the id of the session joins of `places`, which are in the fixed order of relations."""
    return content_id("session", *(part for place in places for part in place))


def aggregate_id(stores: tuple[StoreId, ...]) -> str:
    """Return the id of the shared aggregate over these stores."""
    return content_id("aggregate", *stores)


@dataclass(frozen=True, slots=True)
class StoredRelation:
    """The store of one relation's rows, and the index by which they are joined."""

    stream: str
    role: int
    route: Key
    index: Index | None

    @property
    def store(self) -> StoreId:
        """The store of the rows."""
        return store_id(self.stream, self.role, self.route)

    @property
    def place(self) -> Place:
        """The store and the index."""
        assert self.index is not None, "a relation of a join has an index"
        return self.store, self.index.id

    @property
    def order(self) -> tuple[str, int, str, str]:
        """The sort key of a fixed order of relations, which makes a ⋈ b and b ⋈ a one join."""
        return (self.stream, self.role, key_text(self.route), key_text(self.index.key) if self.index else "")


@dataclass(frozen=True, slots=True)
class SlicedRelation:
    """A grouping of one relation's rows, or of combinations, that are accumulated into cells.

    `keys` are the group keys. Over a join they begin with the join keys, and the first `route` keys partition the
    store; if `joined`, rows with a NULL among these are left out. With a `source`, the store accumulates the
    combinations that probe trees find under this id, one cell per window; `stream` is then one of their streams.
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
        """The store of slices. Equal groupings of the same stream and role, or combinations, share one store."""
        if self.source:
            return StoreId(content_id("windows", self.source, key_text(self.keys)))
        kind = ("slices", "joined" if self.joined else "", "session" if self.session else "", str(self.route))
        return StoreId(content_id(*kind, self.stream, str(self.role), key_text(self.keys)))


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of one stream that satisfy a predicate."""

    relation: StoredRelation

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The store of the selected rows."""
        return (self.relation.store,)

    @property
    def result(self) -> str:
        """The id of the store: the selected rows are the result."""
        return self.relation.store


@dataclass(frozen=True, slots=True)
class EquiJoin:
    """Pairs of rows of two relations with equal keys, found by a merge join when rows arrive."""

    relations: tuple[StoredRelation, StoredRelation]

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The stores of both relations."""
        return tuple(relation.store for relation in self.relations)

    @property
    def swapped(self) -> bool:
        """Whether the shared join has the query's second relation on its left."""
        first, second = self.relations
        return first.order > second.order

    @property
    def sides(self) -> tuple[StoredRelation, StoredRelation]:
        """The relations in the order of the shared join: left and right."""
        first, second = self.relations
        return (second, first) if self.swapped else (first, second)

    @property
    def result(self) -> str:
        """The id of the shared join."""
        left, right = self.sides
        return join_id(*left.place, *right.place)


@dataclass(frozen=True, slots=True)
class ProbeJoin:
    """Combinations of three or more relations, or of two with a condition other than equality, found by probe trees."""

    relations: tuple[StoredRelation, ...]
    result: str
    """The id of the combinations."""

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The stores that probe trees visit."""
        return tuple(relation.store for relation in self.relations)


@dataclass(frozen=True, slots=True)
class SessionJoin:
    """Combinations of rows in one session of the join key, built when the session closes."""

    relations: tuple[StoredRelation, ...]

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The stores of all relations."""
        return tuple(relation.store for relation in self.relations)

    @property
    def places(self) -> tuple[Place, ...]:
        """The joined stores and indexes, in the fixed order of relations."""
        return tuple(relation.place for relation in sorted(self.relations, key=lambda relation: relation.order))

    @property
    def result(self) -> str:
        """The id of the session joins of these places."""
        return session_id(self.places)


@dataclass(frozen=True, slots=True)
class SliceAggregate:
    """Groups of one stream, accumulated in slices."""

    slices: tuple[SlicedRelation]

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The store of slices."""
        return tuple(sliced.store for sliced in self.slices)

    @property
    def result(self) -> str:
        """The id of the shared aggregate."""
        return aggregate_id(self.stores)


@dataclass(frozen=True, slots=True)
class FactoredAggregate:
    """Groups of an equi-join of two relations. Each side is accumulated separately, and no pair is built."""

    slices: tuple[SlicedRelation, SlicedRelation]

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The stores of slices of both sides."""
        return tuple(sliced.store for sliced in self.slices)

    @property
    def result(self) -> str:
        """The id of the shared aggregate."""
        return aggregate_id(self.stores)


@dataclass(frozen=True, slots=True)
class ProbeAggregate:
    """Groups of the combinations that probe trees find."""

    join: ProbeJoin
    slices: tuple[SlicedRelation]

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The stores that probe trees visit, then the store of slices."""
        return (*self.join.stores, *(sliced.store for sliced in self.slices))

    @property
    def result(self) -> str:
        """The id of the shared aggregate."""
        return aggregate_id(tuple(sliced.store for sliced in self.slices))


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    """Groups of the combinations of a session, built when the session closes."""

    join: SessionJoin
    slices: tuple[SlicedRelation]
    """The grouping of the combinations. No cells are stored."""

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The stores of all relations."""
        return self.join.stores

    @property
    def result(self) -> str:
        """The id of the aggregate, which depends on the join and on the group keys."""
        return self.slices[0].source


Strategy = (
    Selection
    | EquiJoin
    | ProbeJoin
    | SessionJoin
    | SliceAggregate
    | FactoredAggregate
    | ProbeAggregate
    | SessionAggregate
)
