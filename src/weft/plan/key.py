"""Keys of stores: what rows are indexed and divided by."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import NewType

from weft.plan.expression import Column, Expression
from weft.plan.identity import identity
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
    return ", ".join(identity(part) for part in key)


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
    return part.name if isinstance(part, Column) else "weft#k:" + identity(part)


def is_exact(types: tuple[DataType, ...]) -> bool:
    """Whether a 64-bit hash of such a key is a bijection."""
    return len(types) == 1 and types[0].kind in _EXACT
