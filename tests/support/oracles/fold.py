"""Aggregates on Python values, by Spark's rules: the reference's half of what DuckDB does for the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tests.support.oracles.evaluate import Tuple, value_of
from tests.support.spec import Call, Product, Value, relation_of


def fold(call: Call, rows: Sequence[Sequence[Tuple]]) -> Value:
    """The value of a call over the rows of one group; a row has one tuple per relation."""
    if call.of is None:
        return len(rows)
    arguments = [_argument(call, row) for row in rows]
    given = [value for value in arguments if value is not None]
    match call.function:
        case "count":
            return len(given)
        case "distinct" | "approx_distinct":
            return len({canonical(value) for value in given})
        case _:
            return _FOLDS[call.function](given) if given else None


def canonical(value: Value) -> Value:
    """Equal for values that are one group: NaN is one value, and so are both zeros."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _argument(call: Call, row: Sequence[Tuple]) -> Value:
    of = call.of
    assert of is not None
    if not isinstance(of, Product):
        return value_of(of, row[relation_of(of)])
    # Any: two numbers that can be multiplied, which mypy cannot know.
    left: Any = row[of.left.relation][of.left.name]
    right: Any = row[of.right.relation][of.right.name]
    product: Value = None if left is None or right is None else left * right
    return product


def _sum(given: list[Any]) -> Value:
    total: Value = sum(given[1:], given[0])
    return total


def _average(given: list[Any]) -> Value:
    if isinstance(given[0], Decimal):
        mean = sum(given, Decimal(0)) / len(given)
        return mean.quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return float(sum(float(value) for value in given)) / len(given)


def _deviation(given: list[Any]) -> Value:
    if len(given) < 2:
        return None
    numbers = [float(value) for value in given]
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((number - mean) * (number - mean) for number in numbers) / (len(numbers) - 1))


def _rank(value: Any) -> Any:
    """NaN above all else."""
    return (math.isnan(value), value) if isinstance(value, float) else value


# Any: values of one type, which mypy cannot know.
_FOLDS: dict[str, Callable[[list[Any]], Value]] = {
    "sum": _sum,
    "avg": _average,
    "stddev": _deviation,
    "min": lambda given: min(given, key=_rank),
    "max": lambda given: max(given, key=_rank),
}
