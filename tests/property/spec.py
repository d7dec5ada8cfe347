"""Queries as values: what the generator draws, and what oracle, reference and weft's SQL text are all made from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from weft.plan.types import DataType

Value = bool | int | float | str | Decimal | date | datetime | None


@dataclass(frozen=True, slots=True)
class Col:
    """A column of relation `relation` of the query."""

    relation: int
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Lit:
    """A constant of a type."""

    value: Value
    type: DataType


@dataclass(frozen=True, slots=True)
class Arith:
    """`left op right` with op one of + - * % on values too small to overflow; % never by zero."""

    op: str
    left: Col
    right: Lit


@dataclass(frozen=True, slots=True)
class Length:
    """Number of characters of a string."""

    of: Col


Scalar = Col | Lit | Arith | Length


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`, op one of = <> < <= > >= <=> (the last is NULL-safe)."""

    op: str
    left: Scalar
    right: Scalar


@dataclass(frozen=True, slots=True)
class Between:
    """`low <= value <= high`."""

    value: Scalar
    low: Lit
    high: Lit


@dataclass(frozen=True, slots=True)
class In:
    """`value IN (options)`; an option may be NULL."""

    value: Scalar
    options: tuple[Lit, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    """`value IS [NOT] NULL`."""

    value: Col
    negated: bool


@dataclass(frozen=True, slots=True)
class Like:
    """`value [NOT] LIKE pattern`; patterns hold no backslash, the one thing dialects differ in."""

    value: Col
    pattern: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean column as a condition."""

    value: Col


@dataclass(frozen=True, slots=True)
class Not:
    """Three-valued negation."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """Three-valued conjunction."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Three-valued disjunction."""

    parts: tuple[Predicate, ...]


Predicate = Compare | Between | In | IsNull | Like | Truth | Not | And | Or


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows [k·slide, k·slide + size) in microseconds."""

    size: int
    slide: int


@dataclass(frozen=True, slots=True)
class Range:
    """Younger than `size` microseconds before the latest tuple of the pair."""

    size: int


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Full history."""


Window = Sliding | Range | Unbounded


@dataclass(frozen=True, slots=True)
class Interval:
    """`low <= t0 - t1 <= high` in microseconds, written as a condition on the event-time columns."""

    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class RelationSpec:
    """One occurrence of a stream in FROM; `alias` None leaves the stream's own name."""

    stream: str
    time: str
    alias: str | None
    window: Window | None
    predicate: Predicate | None

    @property
    def qualifier(self) -> str:
        """What columns of this relation are qualified with."""
        return self.alias or self.stream


@dataclass(frozen=True, slots=True)
class Key:
    """`left` over relation 0 equals `right` over relation 1; `swapped` writes it the other way round."""

    left: Scalar
    right: Scalar
    swapped: bool


@dataclass(frozen=True, slots=True)
class WindowEdge:
    """`window_start` or `window_end`."""

    name: str


OutputColumn = Col | WindowEdge


@dataclass(frozen=True, slots=True)
class Style:
    """Ways to write the same query: meaning must not depend on them."""

    predicates_in_on: bool
    unqualified: bool
    star: bool
    aliased: bool


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A selection over one relation or an equi-join of two; windows are alike on both or ranges and unbounded."""

    name: str
    relations: tuple[RelationSpec, ...]
    keys: tuple[Key, ...]
    interval: Interval | None
    outputs: tuple[OutputColumn, ...]
    style: Style

    @property
    def sliding(self) -> Sliding | None:
        """The window rows are reported per, if they are."""
        window = self.relations[0].window
        return window if isinstance(window, Sliding) else None

    @property
    def streams(self) -> frozenset[str]:
        """Names of the streams it reads."""
        return frozenset(relation.stream for relation in self.relations)
