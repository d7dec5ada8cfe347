"""The aggregation of a bound query: group keys, aggregate calls and HAVING.

Every function can be computed from parts (slices, partitions, batches) in any order. AVG, STDDEV and similar
functions are not among them: the SQL front end writes these as expressions over the functions below.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from weft.plan.expression import Expression
from weft.plan.identity import identity
from weft.plan.types import DataType

SEPARATOR = "\x1f"


class Function(StrEnum):
    """A function that is accumulated over the rows of a group."""

    ROWS = "rows"
    """COUNT(*)."""
    COUNT = "count"
    """The number of rows whose argument is not NULL."""
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    SPREAD = "spread"
    """The sum of squared distances from the mean (double); variances and deviations follow from SPREAD and COUNT."""
    COUNT_DISTINCT = "count_distinct"
    APPROX_DISTINCT = "approx_distinct"
    """An estimate from a HyperLogLog sketch; the order and batching of the rows do not change the estimate."""
    QUANTILE = "quantile"
    """A value of the group, from a histogram with logarithmic buckets; `parameter` is the fraction, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate call of a query.

    `arguments` has one entry per relation, None where the call does not read the relation (for ROWS, all are None).
    Over a join, a call reads one side; SUM may read both sides and sums their product, COUNT may read both sides and
    counts pairs in which neither is NULL. `result` is the type of the value. Without rows to accumulate, the value is
    NULL, except for counting functions.
    """

    function: Function
    arguments: tuple[Expression | None, ...]
    result: DataType
    parameter: float | None = None

    @property
    def argument(self) -> str:
        """The text of the arguments. Calls with the same function and text share an accumulator."""
        return SEPARATOR.join("" if argument is None else identity(argument) for argument in self.arguments)

    @property
    def id(self) -> str:
        """The id of the call. Equal calls have equal ids; the same sum as bigint and as decimal are two calls."""
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
    calls: tuple[AggregateCall, ...]
    having: str | None = None

    def parts(self, relation: int) -> tuple[Expression, ...]:
        """Return the expressions to compute for each row of a relation: its group keys and arguments."""
        arguments = (call.arguments[relation] for call in self.calls)
        return (
            *(key.expression for key in self.keys if key.relation == relation),
            *(argument for argument in arguments if argument is not None),
        )
