"""Aggregations over joins, rewritten as aggregations over a stream of combinations.

Columns are named as in a combination, `<stream>#<role>.<column>`, so that queries that list their relations in a
different order still have equal group keys and accumulators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from weft.plan.aggregation import AggregateCall, Aggregation, GroupKey
from weft.plan.expression import TRUE, Call, Expression, Literal, columns_of, rename_columns
from weft.plan.probe_tree import Input, inputs_of
from weft.plan.query import BoundQuery
from weft.plan.types import BIGINT, BOOLEAN, DOUBLE, FLOATS, NUMBERS, DataType, Kind, bounded_decimal

_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}
"""The decimal precision that Spark gives to an integer type in arithmetic with decimals."""


def over_combinations(query: BoundQuery) -> Aggregation:
    """Return the query's aggregation over its combinations, in which each call has one argument."""
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
    """Return the columns of a relation that group keys and arguments read."""
    assert query.aggregation is not None
    return frozenset[str]().union(*(columns_of(part) for part in query.aggregation.parts(relation)))


def selected_columns(query: BoundQuery) -> tuple[str, ...]:
    """Return the columns of a combination that the predicates of the query read."""
    columns: set[str] = set()
    for relation, owner in zip(query.relations, inputs_of(query), strict=True):
        if relation.predicate is not None:
            columns |= {owner.column(name) for name in columns_of(relation.predicate)}
    return tuple(sorted(columns))


def _renamed(expression: Expression, owner: Input) -> Expression:
    return rename_columns(expression, owner.column)


def _argument(call: AggregateCall, inputs: Sequence[Input]) -> Expression | None:
    """Return the argument of a call over combinations; the factors of a product are in the order of the inputs."""
    factors = {
        owner: _renamed(argument, owner)
        for owner, argument in zip(inputs, call.arguments, strict=True)
        if argument is not None
    }
    return reduce(_times, (factors[owner] for owner in sorted(factors))) if factors else None


def _times(first: Expression, second: Expression) -> Expression:
    """Return the product in Spark's type; for non-numbers, TRUE if neither is NULL, else NULL (enough for COUNT)."""
    types = (first.type, second.type)
    if any(type_ is None or type_.kind not in NUMBERS for type_ in types):
        known = Call("and", tuple(Call("is_not_null", (side,), BOOLEAN) for side in (first, second)), BOOLEAN)
        return Call("case", (known, TRUE, Literal(None, BOOLEAN)), BOOLEAN)
    if any(type_.kind in FLOATS for type_ in types if type_ is not None):
        return Call("mul", (_cast(first, DOUBLE), _cast(second, DOUBLE)), DOUBLE)
    if all(type_.kind is not Kind.DECIMAL for type_ in types if type_ is not None):
        return Call("mul", (_cast(first, BIGINT), _cast(second, BIGINT)), BIGINT)
    left, right = (_as_decimal(side) for side in (first, second))
    assert left.type is not None and right.type is not None
    digits = left.type.precision + right.type.precision + 1
    return Call("mul", (left, right), bounded_decimal(digits, left.type.scale + right.type.scale))


def _cast(expression: Expression, type_: DataType) -> Expression:
    return expression if expression.type == type_ else Call("cast", (expression,), type_)


def _as_decimal(expression: Expression) -> Expression:
    assert expression.type is not None
    if expression.type.kind is Kind.DECIMAL:
        return expression
    return _cast(expression, DataType(Kind.DECIMAL, _DIGITS[expression.type.kind], 0))
