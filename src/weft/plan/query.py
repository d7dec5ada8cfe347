"""A bound query: names resolved, types checked, coercions explicit, nothing of the parser left."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.plan.aggregate import Aggregation
from weft.plan.expression import Expression
from weft.plan.types import DataType
from weft.plan.window import EVERYTHING, Session, Sliding, TimeBounds, Window


@dataclass(frozen=True, slots=True)
class Relation:
    """One occurrence of a stream in FROM.

    `role` counts occurrences of the same stream in this query: a self-join has roles 0 and 1, so a row can be wanted
    as left tuple, as right tuple, or both. `predicate` is everything WHERE and ON say about this relation alone.
    `columns` are those the SELECT list reads from it.
    """

    stream: str
    alias: str
    role: int
    window: Window | None
    predicate: Expression | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """`left` (over relation 0) equals `right` (over relation 1); both have type `type` after coercion."""

    left: Expression
    right: Expression
    type: DataType


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result.

    `sql` is Spark SQL over the columns of a matched combination, each named `<relation index>.<column>` and
    backquoted, and `window_start` / `window_end`. `source` is set when the output is just such a column.
    `type` is None where only Spark can tell.
    """

    name: str
    sql: str
    type: DataType | None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A selection over one relation, an equi-join of two, or an aggregation over either.

    `bounds` limits t0 − t1 of a pair (from RANGE windows and interval conditions); `sliding` is set when results are
    per window, and then a pair gives one row for each window that holds both tuples; `session` is set when windows
    are sessions per group or join key. An aggregation has one of the two.
    """

    sql: str
    relations: tuple[Relation, ...]
    keys: tuple[KeyPair, ...]
    outputs: tuple[Output, ...]
    bounds: TimeBounds = EVERYTHING
    sliding: Sliding | None = None
    session: Session | None = None
    aggregation: Aggregation | None = None
    notices: tuple[str, ...] = field(default=())

    @property
    def is_join(self) -> bool:
        """Whether there are two relations."""
        return len(self.relations) == 2
