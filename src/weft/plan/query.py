"""The bound query: names are resolved, types are checked, coercions are explicit, and no parser node is left."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.plan.aggregation import Aggregation
from weft.plan.expression import Expression
from weft.plan.types import DataType
from weft.plan.window import EVERYTHING, Session, Sliding, TimeBounds, Window


@dataclass(frozen=True, slots=True)
class Relation:
    """One entry of a query's FROM clause.

    `role` numbers the occurrences of the same stream in the query. A self-join has roles 0 and 1, because the query
    may want a row on the left side, on the right side, or on both. `predicate` is everything that WHERE and ON say
    about this relation alone. `columns` are the columns that the SELECT list reads.
    """

    stream: str
    alias: str
    role: int
    window: Window | None
    predicate: Expression | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The condition `left` = `right`, over `left_relation` and `right_relation`; both sides are coerced to `type`."""

    left: Expression
    right: Expression
    type: DataType
    left_relation: int = 0
    right_relation: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.left_relation < self.right_relation:
            raise ValueError(f"not a pair of relations in order: {self.left_relation}, {self.right_relation}")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition over several relations that is no `KeyPair`; combinations qualify where it is true, not NULL.

    `relations` are in ascending order. Columns of `expression` are named `<relation index>.<column>`. A comparison
    between two relations has the value of the first relation on its left. `expression` is the constant TRUE if only
    event times join the relations, since the bounds of the query then express the whole condition.
    """

    relations: tuple[int, ...]
    expression: Expression

    def __post_init__(self) -> None:
        if len(self.relations) < 2 or list(self.relations) != sorted(set(self.relations)):
            raise ValueError(f"not several relations in order: {self.relations}")


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result.

    `sql` is Spark SQL over the backquoted columns of a combination (`<relation index>.<column>`), `window_start` and
    `window_end`. `source` is the column's name if the output is a plain column. `type` is None if only Spark knows the
    type. A `doubtful` output calls functions that only Spark computes; before the query is accepted, Spark analyses
    the output to check types and find implicit conversions. `copies` (how often each column) and `added` (how many
    other characters) limit what the value can contain; a plain column has neither.
    """

    name: str
    sql: str
    type: DataType | None
    source: str | None = None
    doubtful: bool = False
    copies: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    added: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A selection over one relation, a join of several, or an aggregation over either.

    `keys` and `conditions` connect all relations of a join. With two relations, `bounds` limits t0 − t1 of a pair (from
    RANGE windows and interval conditions). With more, `pair_bounds` has the limits of ti − tj for every i < j, each as
    tight as all of them together imply. `sliding` is set if results are per window: a combination then gives one row
    for each window that contains all its rows. `session` is set if windows are sessions per group or join key. An
    aggregation has one of the two.
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
    conditions: tuple[Condition, ...] = ()
    pair_bounds: tuple[tuple[int, int, TimeBounds], ...] = ()

    def limits(self) -> tuple[tuple[int, int, TimeBounds], ...]:
        """Return the limits of ti − tj as (i, j, bounds) for every i < j, for any number of relations."""
        match len(self.relations):
            case 1:
                return ()
            case 2:
                return ((0, 1, self.bounds),)
            case _:
                return self.pair_bounds

    def reach_back(self, relation: int, other: int) -> int | None:
        """Return how many microseconds older than a new row of `other` a row of `relation` can be; None is no limit."""
        first, second = sorted((relation, other))
        bounds = next((pair_limits for i, j, pair_limits in self.limits() if (i, j) == (first, second)), EVERYTHING)
        if relation == first:
            return None if bounds.low is None else -bounds.low
        return bounds.high
