"""Spec expressions on Python values, by Spark's rules: the reference's half of what DuckDB does for the oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, assert_never

from tests.support.spec import (
    And,
    Arith,
    Between,
    Col,
    Compare,
    In,
    IsNull,
    Length,
    Like,
    Lit,
    Mixed,
    Not,
    Or,
    Predicate,
    Scalar,
    Shift,
    Truth,
    Value,
)

Tuple = Mapping[str, Value]
Truthness = bool | None


def value_of(scalar: Scalar, row: Tuple) -> Value:
    """The value of a scalar over the columns of its relation."""
    match scalar:
        case Col(name=name):
            return row[name]
        case Lit(value=value):
            return value
        case Arith(op=op, left=left, right=right):
            return _arithmetic(op, row[left.name], right.value)
        case Length(of=of):
            text = row[of.name]
            return None if text is None else len(str(text))
        case Mixed(op=op, left=first, right=second):
            return _arithmetic(op, value_of(first, row), value_of(second, row))
        case Shift(of=of, micros=micros):
            instant = row[of.name]
            assert instant is None or isinstance(instant, datetime)
            return None if instant is None else instant + timedelta(microseconds=micros)
        case _:
            assert_never(scalar)


def _arithmetic(op: str, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    assert isinstance(left, int)
    assert isinstance(right, int)
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "%":
            return int(math.copysign(1, left)) * (abs(left) % right)
        case _:
            raise ValueError(f"not an operator: {op}")


def holds(predicate: Predicate, row: Tuple) -> Truthness:
    """True, False, or None for unknown."""
    match predicate:
        case Compare(op=op, left=left, right=right):
            return compare(op, value_of(left, row), value_of(right, row))
        case Between(value=value, low=low, high=high):
            given = value_of(value, row)
            return _all((compare(">=", given, value_of(low, row)), compare("<=", given, value_of(high, row))))
        case In(value=value, options=options, negated=negated):
            given = value_of(value, row)
            found = _any(tuple(compare("=", given, option.value) for option in options))
            return _negate(found) if negated else found
        case IsNull(value=value, negated=negated):
            return (row[value.name] is None) != negated
        case Like(value=value, pattern=pattern, negated=negated):
            found = _like(row[value.name], pattern)
            return _negate(found) if negated else found
        case Truth(value=value):
            truth = row[value.name]
            assert truth is None or isinstance(truth, bool)
            return truth
        case Not(part=part):
            return _negate(holds(part, row))
        case And(parts=parts):
            return _all(tuple(holds(part, row) for part in parts))
        case Or(parts=parts):
            return _any(tuple(holds(part, row) for part in parts))
        case _:
            assert_never(predicate)


def compare(op: str, left: Value, right: Value) -> Truthness:
    """A comparison: unknown with NULL, NaN equal to itself and above all else."""
    if op == "<=>":
        return left is right if left is None or right is None else _ORDER["="](*_ranks(left, right))
    if left is None or right is None:
        return None
    return _ORDER[op](*_ranks(left, right))


# Any: two values of one type, which mypy cannot know.
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: bool(left == right),
    "<>": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def _ranks(left: Value, right: Value) -> tuple[Any, Any]:
    """Both as values Python orders as Spark does; a float on one side makes both floats."""
    if isinstance(left, float) or isinstance(right, float):
        return _float_rank(left), _float_rank(right)
    return left, right


def _float_rank(value: Value) -> tuple[bool, float]:
    assert isinstance(value, float | int | Decimal)
    number = float(value)
    return (True, 0.0) if math.isnan(number) else (False, number)


def _like(value: Value, pattern: str) -> Truthness:
    if value is None:
        return None
    parts = {"%": ".*", "_": "."}
    regex = "".join(parts.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(regex, str(value), re.DOTALL) is not None


def _negate(truth: Truthness) -> Truthness:
    return None if truth is None else not truth


def _all(parts: tuple[Truthness, ...]) -> Truthness:
    if False in parts:
        return False
    return None if None in parts else True


def _any(parts: tuple[Truthness, ...]) -> Truthness:
    if True in parts:
        return True
    return None if None in parts else False
