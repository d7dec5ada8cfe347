"""Keys: the expressions by which the rows of stores are indexed and partitioned."""

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
    """Return the content id of some texts: equal texts have equal ids."""
    return sha256("\x1f".join(parts).encode()).hexdigest()[:12]


def key_text(key: Key) -> str:
    """Return the identity of a key: the identities of its expressions."""
    return ", ".join(identity(part) for part in key)


@dataclass(frozen=True, slots=True)
class Index:
    """An order of a store's rows by the hash of a key; `exact` if equal hashes imply equal keys."""

    key: Key
    exact: bool

    @property
    def id(self) -> IndexId:
        """The content id of the index; queries with equal keys share the index."""
        return IndexId(content_id(key_text(self.key)))

    def columns(self) -> tuple[str, ...]:
        """Return the bucket columns with the values of the key, needed to detect hash collisions; none if exact."""
        return () if self.exact else tuple(key_column(part) for part in self.key)


def key_column(part: Expression) -> str:
    """Return the bucket column of a key part: the stream's column if the part is one, else a computed column."""
    return part.name if isinstance(part, Column) else "weft#k:" + identity(part)


def is_exact(types: tuple[DataType, ...]) -> bool:
    """Return whether the 64-bit hash of a key of these types is a bijection."""
    return len(types) == 1 and types[0].kind in _EXACT
