"""Aggregation of a bound query: what is grouped, what is accumulated, and how it merges.

AVG, STDDEV and their like are not here: the front end writes them as expressions over the functions below, each of
which can be computed from parts (slices, partitions, batches) in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from weft.plan.expression import Expression
from weft.plan.identity import identity
from weft.plan.types import DataType

SEPARATOR = "\x1f"


class Function(StrEnum):
    """What is accumulated over the rows of a group."""

    ROWS = "rows"
    """COUNT(*)."""
    COUNT = "count"
    """Rows whose argument is not NULL."""
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    SPREAD = "spread"
    """Sum of squared distances from the mean (double): variances and deviations come from it and COUNT."""
    COUNT_DISTINCT = "count_distinct"
    APPROX_DISTINCT = "approx_distinct"
    """Estimated from a HyperLogLog sketch: the same for any order and batching of the rows."""
    QUANTILE = "quantile"
    """A value of the group, found by a histogram with logarithmic buckets; `parameter` is the fraction, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Call:
    """One accumulated value of a query.

    `arguments` has one expression per relation: over a join a call is of one side (the other is None), or, for SUM,
    of the product of both, or, for COUNT, of the pairs in which both are not NULL. All are None for ROWS. `result` is
    the type of the value, NULL if no row counted except for the counting functions.
    """

    function: Function
    arguments: tuple[Expression | None, ...]
    result: DataType
    parameter: float | None = None

    @property
    def argument(self) -> str:
        """The text of its arguments: calls of equal functions and texts accumulate the same."""
        return SEPARATOR.join("" if argument is None else identity(argument) for argument in self.arguments)

    @property
    def id(self) -> str:
        """Equal calls have an equal id: one sum as bigint and as decimal are two calls."""
        parameter = "" if self.parameter is None else repr(self.parameter)
        return SEPARATOR.join((self.function, self.argument, parameter, self.result.ddl()))


@dataclass(frozen=True, slots=True)
class GroupKey:
    """One GROUP BY expression over one relation."""

    expression: Expression
    relation: int
    type: DataType


@dataclass(frozen=True, slots=True)
class Aggregation:
    """GROUP BY, the aggregate calls, and HAVING.

    A query's outputs and `having` are Spark SQL over the columns `g<n>` (the n-th key), `a<n>` (the n-th call),
    `window_start` and `window_end`, backquoted.
    """

    keys: tuple[GroupKey, ...]
    calls: tuple[Call, ...]
    having: str | None = None

    def parts(self, relation: int) -> tuple[Expression, ...]:
        """What is computed of a relation's rows: group keys and arguments."""
        arguments = (call.arguments[relation] for call in self.calls)
        return (
            *(key.expression for key in self.keys if key.relation == relation),
            *(argument for argument in arguments if argument is not None),
        )
