"""Aggregations over joined relations as if their combinations were rows of one stream.

Columns are named as in a combination, `<stream>#<role>.<column>`, so that queries that name their relations in another
order still group by and accumulate the same expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from weft.plan.aggregation import Aggregation, Call, GroupKey
from weft.plan.expression import TRUE, Expression, Literal, columns_of, rename_columns
from weft.plan.expression import Call as Computed
from weft.plan.probe_tree import Input, inputs_of
from weft.plan.query import BoundQuery
from weft.plan.types import BIGINT, BOOLEAN, DOUBLE, FLOATS, NUMBERS, DataType, Kind, bounded_decimal

_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}
"""Of integers beside a decimal."""


def over_combinations(query: BoundQuery) -> Aggregation:
    """The query's aggregation over its combinations: each call has one argument."""
    assert query.aggregation is not None
    inputs = inputs_of(query)
    return replace(
        query.aggregation,
        keys=tuple(
            GroupKey(_renamed(key.expression, inputs[key.relation]), 0, key.type) for key in query.aggregation.keys
        ),
        calls=tuple(replace(call, arguments=(_argument(call, inputs),)) for call in query.aggregation.calls),
    )


def aggregated_columns(query: BoundQuery, relation: int) -> frozenset[str]:
    """Columns of a relation that group keys and arguments read."""
    assert query.aggregation is not None
    return frozenset[str]().union(*(columns_of(part) for part in query.aggregation.parts(relation)))


def selected_columns(query: BoundQuery) -> tuple[str, ...]:
    """Columns of the combination that the predicates of the query read."""
    found: set[str] = set()
    for relation, each in zip(query.relations, inputs_of(query), strict=True):
        if relation.predicate is not None:
            found |= {each.column(name) for name in columns_of(relation.predicate)}
    return tuple(sorted(found))


def _renamed(expression: Expression, owner: Input) -> Expression:
    return rename_columns(expression, owner.column)


def _argument(call: Call, inputs: Sequence[Input]) -> Expression | None:
    """What the call is of, in a fixed order of factors if it is a product."""
    factors = {
        owner: _renamed(argument, owner)
        for owner, argument in zip(inputs, call.arguments, strict=True)
        if argument is not None
    }
    return reduce(_times, (factors[owner] for owner in sorted(factors))) if factors else None


def _times(first: Expression, second: Expression) -> Expression:
    """The product, in the type of Spark; of what are no numbers, only whether both are known: COUNT asks no more."""
    types = (first.type, second.type)
    if any(type_ is None or type_.kind not in NUMBERS for type_ in types):
        known = Computed("and", tuple(Computed("is_not_null", (each,), BOOLEAN) for each in (first, second)), BOOLEAN)
        return Computed("case", (known, TRUE, Literal(None, BOOLEAN)), BOOLEAN)
    if any(type_.kind in FLOATS for type_ in types if type_ is not None):
        return Computed("mul", (_cast(first, DOUBLE), _cast(second, DOUBLE)), DOUBLE)
    if all(type_.kind is not Kind.DECIMAL for type_ in types if type_ is not None):
        return Computed("mul", (_cast(first, BIGINT), _cast(second, BIGINT)), BIGINT)
    left, right = (_as_decimal(each) for each in (first, second))
    assert left.type is not None and right.type is not None
    digits = left.type.precision + right.type.precision + 1
    return Computed("mul", (left, right), bounded_decimal(digits, left.type.scale + right.type.scale))


def _cast(expression: Expression, type_: DataType) -> Expression:
    return expression if expression.type == type_ else Computed("cast", (expression,), type_)


def _as_decimal(expression: Expression) -> Expression:
    assert expression.type is not None
    if expression.type.kind is Kind.DECIMAL:
        return expression
    return _cast(expression, DataType(Kind.DECIMAL, _DIGITS[expression.type.kind], 0))
