"""A bound query: names resolved, types checked, coercions explicit, nothing of the parser left."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.plan.aggregation import Aggregation
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
    """`left` (over `left_relation`) equals `right` (over `right_relation`); both have type `type` after coercion."""

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
    """A boolean over several relations that is no `KeyPair`; a combination qualifies where it is true, not NULL.

    `relations` are in ascending order. Columns of `expression` are named `<relation index>.<column>`, as in a matched
    combination. A comparison of one relation's value with another's has the first relation's on the left. It is the
    constant TRUE where only event times join the relations: the bounds of the query say all of it.
    """

    relations: tuple[int, ...]
    expression: Expression

    def __post_init__(self) -> None:
        if len(self.relations) < 2 or list(self.relations) != sorted(set(self.relations)):
            raise ValueError(f"not several relations in order: {self.relations}")


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result.

    `sql` is Spark SQL over the columns of a matched combination, each named `<relation index>.<column>` and
    backquoted, and `window_start` / `window_end`. `source` is set when the output is just such a column.
    `type` is None where only Spark can tell. A `doubtful` one calls what only Spark computes: Spark is asked
    before the query is accepted whether it takes it, and what it converts on its own. Its value holds columns at most
    as often as `copies` says, and `added` characters beside; a column alone says neither.
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

    `keys` and `conditions` connect all relations of a join. `bounds` limits t0 − t1 of a pair (from RANGE windows and
    interval conditions) if there are two relations; if there are more, `pair_bounds` has for every i < j the limits of
    ti − tj, each as tight as all of them together make it. `sliding` is set when results are per window, and then a
    combination gives one row for each window that holds all its tuples; `session` is set when windows are sessions
    per group or join key. An aggregation has one of the two.
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
        """Limits of ti − tj for every i < j, however many relations there are."""
        match len(self.relations):
            case 1:
                return ()
            case 2:
                return ((0, 1, self.bounds),)
            case _:
                return self.pair_bounds

    def reach_back(self, relation: int, other: int) -> int | None:
        """How much older than a new tuple of `other` a tuple of `relation` can be, in microseconds; None is any."""
        first, second = sorted((relation, other))
        bounds = next((limits for i, j, limits in self.limits() if (i, j) == (first, second)), EVERYTHING)
        if relation == first:
            return None if bounds.low is None else -bounds.low
        return bounds.high
