"""The shapes of a workload's queries: what is asked, before it is said in anybody's words.

Expressions and conditions are SQL that every dialect reads in the same way: columns with their relation's alias before
them (`a.f0`), numbers, text in single quotes, comparisons, arithmetic, AND, OR, IN, BETWEEN, LIKE, CASE, MOD.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

TIME = "ts"
"""The event time of every stream."""
_COLUMN = re.compile(r"\b([A-Za-z_]\w*)\.([A-Za-z_]\w*)")


class CannotSay(Exception):
    """A dialect has no words for a query; the message says why."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream as a query names it."""

    stream: str
    alias: str


@dataclass(frozen=True, slots=True)
class Output:
    """A selected expression and its name in the result."""

    expression: str
    name: str

    def sql(self) -> str:
        """As it stands in a SELECT list."""
        return f"{self.expression} AS {self.name}"


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of so many seconds, one beginning every `slide` seconds since the epoch."""

    seconds: int
    slide: int

    def __post_init__(self) -> None:
        if not 1 <= self.slide <= self.seconds:
            raise ValueError(f"a window of {self.seconds} s cannot slide by {self.slide} s")


@dataclass(frozen=True, slots=True)
class Session:
    """Rows of a group, each less than so many seconds after the one before."""

    gap: int


Window = Sliding | Session


class Function(StrEnum):
    """An aggregate function; DISTINCT counts different values."""

    COUNT = "COUNT"
    DISTINCT = "DISTINCT"
    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    AVG = "AVG"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of the rows of a group that meet a condition, if there is one; sums are of integers."""

    function: Function
    argument: str
    name: str
    condition: str = ""

    def sql(self, *, cast: str = "") -> str:
        """As it stands in a SELECT list, the argument cast to a type if one is given."""
        argument = f"CAST({self.argument} AS {cast})" if cast else self.argument
        called = f"COUNT(DISTINCT {argument})" if self.function is Function.DISTINCT else f"{self.function}({argument})"
        filtered = f" FILTER (WHERE {self.condition})" if self.condition else ""
        return f"{called}{filtered} AS {self.name}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of one stream that meet all conditions, their event time first."""

    relation: Relation
    conditions: tuple[str, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class NearJoin:
    """Combinations of rows that meet all conditions, any two of them less than `seconds` apart; their times first.

    `after`: a row of a later relation is not older than the first one's.
    """

    relations: tuple[Relation, ...]
    conditions: tuple[str, ...]
    outputs: tuple[Output, ...]
    seconds: int
    after: bool = False

    def __post_init__(self) -> None:
        if self.after and len(self.relations) != 2:
            raise ValueError(f"only one of two relations can come after the other, not of {len(self.relations)}")


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """Combinations of rows that meet all conditions, once for every window they are all in; their times first."""

    relations: tuple[Relation, ...]
    conditions: tuple[str, ...]
    outputs: tuple[Output, ...]
    window: Sliding

    def __post_init__(self) -> None:
        if len(self.relations) != 2:
            raise ValueError(f"a window join is of two relations, not of {len(self.relations)}")


@dataclass(frozen=True, slots=True)
class Grouped:
    """Aggregates by window and keys over the rows, or the combinations of rows, that meet all conditions."""

    relations: tuple[Relation, ...]
    conditions: tuple[str, ...]
    keys: tuple[Output, ...]
    aggregates: tuple[Aggregate, ...]
    window: Window
    having: str = ""
    """A condition on aggregates, in functions that all dialects have the same types of."""
    observed: bool = False
    """The largest event time of every relation is among the outputs."""

    def __post_init__(self) -> None:
        if isinstance(self.window, Session) and len(self.relations) > 1:
            raise ValueError("a session is of the rows of one relation")

    def newest(self) -> tuple[Aggregate, ...]:
        """What shows how new a group's rows are, if it is observed."""
        if not self.observed:
            return ()
        names = ["newest"] if len(self.relations) == 1 else [f"{each.alias}_newest" for each in self.relations]
        pairs = zip(self.relations, names, strict=True)
        return tuple(Aggregate(Function.MAX, f"{each.alias}.{TIME}", name) for each, name in pairs)


Shape = Selection | NearJoin | WindowJoin | Grouped


def newest(shape: Shape) -> tuple[str, ...]:
    """The output columns that have event times."""
    match shape:
        case Selection():
            return (TIME,)
        case NearJoin() | WindowJoin():
            return tuple(f"{each.alias}_{TIME}" for each in shape.relations)
        case Grouped():
            return tuple(each.name for each in shape.newest())


def aliases(text: str) -> set[str]:
    """The relations whose columns an expression reads."""
    return {found[1] for found in _COLUMN.finditer(text)}


def flat(text: str, relations: Iterable[Relation], prefix: str = "") -> str:
    """An expression with the columns of some relations named alias_column, as they are after a join in a subquery."""
    known = {each.alias for each in relations}
    return _COLUMN.sub(lambda found: f"{prefix}{found[1]}_{found[2]}" if found[1] in known else found[0], text)


def columns_of(alias: str, texts: Iterable[str]) -> list[str]:
    """The columns of a relation that expressions read, but for its event time, in the order of their names."""
    found = {each[2] for text in texts for each in _COLUMN.finditer(text) if each[1] == alias}
    return sorted(found - {TIME})


def expressions(shape: Shape) -> list[str]:
    """All expressions of a query but its conditions on single relations."""
    match shape:
        case Selection() | NearJoin() | WindowJoin():
            texts = [each.expression for each in shape.outputs]
        case Grouped():
            aggregates = [text for each in shape.aggregates for text in (each.argument, each.condition)]
            texts = [*(each.expression for each in shape.keys), *aggregates, shape.having]
    return [*texts, *(each for each in shape.conditions if len(aliases(each)) > 1)]


def local(conditions: Sequence[str], alias: str) -> list[str]:
    """The conditions on one relation alone."""
    return [each for each in conditions if aliases(each) == {alias}]


def joining(conditions: Sequence[str], relations: Sequence[Relation], at: int) -> list[str]:
    """The conditions between the relation at this place and ones before it."""
    known = {each.alias for each in relations[: at + 1]}
    alias = relations[at].alias
    found = [each for each in conditions if len(aliases(each)) > 1]
    return [each for each in found if alias in aliases(each) and aliases(each) <= known]


def all_of(conditions: Iterable[str], word: str = " WHERE ") -> str:
    """The conditions behind a word that they are for, or nothing; one with OR keeps to itself."""
    text = " AND ".join(f"({each})" if " OR " in each else each for each in conditions)
    return f"{word}{text}" if text else ""
