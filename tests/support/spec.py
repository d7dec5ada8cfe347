"""Queries as values: what the generator draws, and what oracle, reference and weft's SQL text are all made from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from weft.plan.types import INT, TIMESTAMP, DataType

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


@dataclass(frozen=True, slots=True)
class Mixed:
    """`left op right` with op + or -, over several relations; both are integers too small to overflow."""

    op: str
    left: Scalar
    right: Scalar


@dataclass(frozen=True, slots=True)
class Shift:
    """A timestamp moved by so many microseconds."""

    of: Col
    micros: int


Scalar = Col | Lit | Arith | Length | Mixed | Shift


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
    low: Scalar
    high: Scalar


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
    """Younger than `size` microseconds before the latest tuple of the combination."""

    size: int


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Full history."""


@dataclass(frozen=True, slots=True)
class Session:
    """Tuples of one group, or of one join key, that are less than `gap` microseconds apart: [first, last + gap); with a
    `longest`, no multiple of it is between two of them, and the next one is the end at the latest."""

    gap: int
    longest: int | None = None


Window = Sliding | Range | Unbounded | Session


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


@dataclass(frozen=True, slots=True)
class Product:
    """A column of relation 0 times a column of relation 1."""

    left: Col
    right: Col


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate: count, sum, min, max, avg, stddev, distinct or approx_distinct; `of` is None for COUNT(*)."""

    function: str
    of: Scalar | Product | None
    type: DataType


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The GROUP BY expression at this position, as an output."""

    number: int


@dataclass(frozen=True, slots=True)
class Having:
    """`call op constant` as the condition on a group."""

    call: Call
    op: str
    constant: Lit


@dataclass(frozen=True, slots=True)
class Grouping:
    """Aggregation per window and keys; `in_group_by` writes the window there and not at the relation."""

    keys: tuple[Scalar, ...]
    having: Having | None
    in_group_by: bool


OutputColumn = Col | WindowEdge | GroupKey | Call


@dataclass(frozen=True, slots=True)
class Style:
    """Ways to write the same query: meaning must not depend on them."""

    predicates_in_on: bool
    unqualified: bool
    star: bool
    aliased: bool
    commas: bool = False
    """Relations after FROM with commas between them, and all that joins them in WHERE."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A selection over one relation, an equi-join of two, or, with `grouping`, an aggregation over either.

    A join of several relations, or by anything but equalities, has `conditions` over several relations each, and
    neither keys nor interval. Windows are alike on all relations or ranges and unbounded; an aggregation's are sliding
    or sessions.
    """

    name: str
    relations: tuple[RelationSpec, ...]
    keys: tuple[Key, ...]
    interval: Interval | None
    outputs: tuple[OutputColumn, ...]
    style: Style
    grouping: Grouping | None = None
    conditions: tuple[Predicate, ...] = ()

    @property
    def sliding(self) -> Sliding | None:
        """The window rows are reported per, if they are."""
        window = self.relations[0].window
        return window if isinstance(window, Sliding) else None

    @property
    def session(self) -> Session | None:
        """The session window, if it has one."""
        window = self.relations[0].window
        return window if isinstance(window, Session) else None

    def session_columns(self, side: int) -> tuple[Col, ...]:
        """What sessions of a join by `conditions` are of: the columns of a relation that equal those of others."""
        equal = [each for each in self.conditions if isinstance(each, Compare) and each.op == "="]
        columns = {each for pair in equal for each in (pair.left, pair.right) if isinstance(each, Col)}
        return tuple(sorted((each for each in columns if each.relation == side), key=lambda each: each.name))

    @property
    def waits(self) -> bool:
        """Whether rows are reported when the watermark passes the window's end, not as soon as they are known."""
        return self.grouping is not None or self.session is not None

    @property
    def streams(self) -> frozenset[str]:
        """Names of the streams it reads."""
        return frozenset(relation.stream for relation in self.relations)

    def type_of_output(self, output: OutputColumn) -> DataType:
        """The type of a result column."""
        match output:
            case Col(type=type_) | Call(type=type_):
                return type_
            case WindowEdge():
                return TIMESTAMP
            case GroupKey(number=number):
                assert self.grouping is not None
                return type_of(self.grouping.keys[number])
            case _:
                assert_never(output)


def type_of(scalar: Scalar) -> DataType:
    """The type of a value; arithmetic keeps that of its column."""
    match scalar:
        case Col(type=type_) | Lit(type=type_):
            return type_
        case Arith(left=left):
            return left.type
        case Mixed(left=of):
            return type_of(of)
        case Shift():
            return TIMESTAMP
        case Length():
            return INT
        case _:
            assert_never(scalar)


def relation_of(scalar: Scalar) -> int:
    """The relation a value is over; a constant is over any."""
    match scalar:
        case Col(relation=relation):
            return relation
        case Arith(left=column) | Length(of=column) | Shift(of=column):
            return column.relation
        case Mixed():
            raise ValueError(f"over several relations: {scalar}")
        case Lit():
            return 0
        case _:
            assert_never(scalar)
