"""The shared plan of all live queries: stores, joins and selections, each with the slots it serves."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import NewType

from weft.plan.changelog import LiveQuery, Slots
from weft.plan.expression import Column, Expression, to_sql
from weft.plan.types import FLOATS, INTEGERS, DataType, Kind

StoreId = NewType("StoreId", str)
IndexId = NewType("IndexId", str)

Key = tuple[Expression, ...]

_EXACT = frozenset((*INTEGERS, *FLOATS, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ))


def content_id(*parts: str) -> str:
    """Equal content has an equal id."""
    return sha256("\x1f".join(parts).encode()).hexdigest()[:12]


def key_text(key: Key) -> str:
    """Identity of a key: the text of its expressions."""
    return ", ".join(to_sql(part) for part in key)


@dataclass(frozen=True, slots=True)
class Index:
    """An order of a store's rows by the hash of a key; `exact` when equal hashes mean equal keys."""

    key: Key
    exact: bool

    @property
    def id(self) -> IndexId:
        """Content id: queries with equal keys share it."""
        return IndexId(content_id(key_text(self.key)))

    def columns(self) -> tuple[str, ...]:
        """Names under which a bucket keeps the key's values, needed to tell hash collisions apart."""
        return () if self.exact else tuple(key_column(part) for part in self.key)


def key_column(part: Expression) -> str:
    """The bucket column that holds a key part: the stream's own where it is one."""
    return part.name if isinstance(part, Column) else "weft#k:" + to_sql(part)


def is_exact(types: tuple[DataType, ...]) -> bool:
    """Whether a 64-bit hash of such a key is a bijection."""
    return len(types) == 1 and types[0].kind in _EXACT


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


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Everything the tag and probe stages do in a batch, for all live queries at once."""

    words: int
    queries: tuple[LiveQuery, ...]
    stores: tuple[Store, ...]
    joins: tuple[SharedJoin, ...]

    def store(self, store_id: StoreId) -> Store:
        """The store of this id."""
        return next(store for store in self.stores if store.id == store_id)
