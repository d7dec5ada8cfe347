"""Coercion of typed expressions to a common type, by Spark's ANSI rules."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import reduce
from math import isnan

from weft.errors import TypeMismatch
from weft.plan.expression import Call, Expression, Literal, Opaque, Value, columns_of, to_sql
from weft.plan.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOATS,
    INTEGERS,
    NULL,
    NUMBERS,
    STRING,
    TIMESTAMP,
    DataType,
    Kind,
)
from weft.sql.syntax.literal import DIGITS, NeedsSpark, cast_literal, fits_type, from_units, limits, units

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
_EXACT = (*INTEGERS, Kind.DECIMAL)
_NESTED = ("array", "map", "struct")
_WIDE = Context(prec=200)


def known_type(expression: Expression) -> DataType:
    """Return the type of an expression; raise `NeedsSpark` if only Spark knows it."""
    if expression.type is None:
        raise NeedsSpark
    return expression.type


def error_text(expression: Expression) -> str:
    """Return the text of an expression for an error message."""
    if isinstance(expression, Literal) and expression.type.kind in NUMBERS and expression.value is not None:
        return str(expression.value)
    text = to_sql(expression)
    return text if len(text) <= 80 else text[:79] + "…"


def common_type(first: DataType, second: DataType) -> DataType | None:
    """Return the type in which Spark compares two values; None if Spark refuses to compare them."""
    if first == second or second.kind is Kind.NULL:
        return first
    if first.kind is Kind.NULL:
        return second
    if first.kind in NUMBERS and second.kind in NUMBERS:
        return _wider_number(first, second)
    if first.kind in _TIMES and second.kind in _TIMES:
        kinds = {first.kind, second.kind}
        return TIMESTAMP if Kind.TIMESTAMP in kinds else DataType(Kind.TIMESTAMP_NTZ)
    for text, other in ((first, second), (second, first)):
        if text.kind is Kind.STRING:
            return _type_against_text(other)
    return None


def _type_against_text(other: DataType) -> DataType | None:
    if other.kind in INTEGERS:
        return BIGINT
    if other.kind in NUMBERS:
        return DOUBLE
    if other.kind is Kind.OTHER and other.text.startswith(_NESTED):
        return None
    return other


def _wider_number(first: DataType, second: DataType) -> DataType:
    kinds = {first.kind, second.kind}
    if kinds & {*FLOATS}:
        return DOUBLE
    if Kind.DECIMAL in kinds:
        return _wider_decimal(_as_decimal(first), _as_decimal(second))
    return max(first, second, key=lambda type_: INTEGERS.index(type_.kind))


def _as_decimal(type_: DataType) -> DataType:
    return type_ if type_.kind is Kind.DECIMAL else DataType(Kind.DECIMAL, DIGITS[type_.kind], 0)


def _wider_decimal(first: DataType, second: DataType) -> DataType:
    scale = max(first.scale, second.scale)
    integer_digits = max(first.precision - first.scale, second.precision - second.scale)
    if integer_digits + scale > 38:
        raise NeedsSpark
    return DataType(Kind.DECIMAL, integer_digits + scale, scale)


def widens(source: DataType, target: DataType) -> bool:
    """Return whether weft itself casts `source` to `target`: the cast never fails, and only bigint to double rounds."""
    if source.kind in INTEGERS and target.kind in INTEGERS:
        return INTEGERS.index(source.kind) <= INTEGERS.index(target.kind)
    if target.kind is Kind.DOUBLE:
        return source.kind in INTEGERS or source.kind is Kind.FLOAT
    if target.kind is Kind.DECIMAL and source.kind in _EXACT:
        narrow = _as_decimal(source)
        return narrow.scale <= target.scale and narrow.precision - narrow.scale <= target.precision - target.scale
    return source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP


def coerce(expression: Expression, target: DataType) -> Expression:
    """Return the expression as `target`, literals folded; raise `NeedsSpark` for a cast that only Spark computes."""
    source = known_type(expression)
    if source == target:
        return expression
    if isinstance(expression, Literal):
        return cast_literal(expression, target)
    if widens(source, target):
        return Call("cast", (expression,), target)
    raise NeedsSpark


def coerce_key(expression: Expression, target: DataType) -> Expression:
    """Return the expression as `target`; a cast that only Spark computes becomes an `Opaque`."""
    try:
        if not isinstance(expression, Opaque):
            return coerce(expression, target)
    except NeedsSpark:
        pass
    if expression.type == target:
        return expression
    text = expression.sql if isinstance(expression, Opaque) else to_sql(expression)
    return Opaque(f"CAST({text} AS {target.ddl().upper()})", tuple(sorted(columns_of(expression))), target)


def unify_types(values: list[Expression]) -> list[Expression]:
    """Return the branches of CASE or the arguments of COALESCE, coerced to one type."""
    types = [known_type(value) for value in values]
    kinds = {type_.kind for type_ in types} - {Kind.NULL}
    # Spark derives a decimal's size from all branches, and converts text to the types of the other branches.
    if (Kind.STRING in kinds and len(kinds) > 1) or (Kind.DECIMAL in kinds and len(set(types) - {NULL}) > 1):
        raise NeedsSpark

    def fold(first: DataType, second: DataType) -> DataType:
        common = common_type(first, second)
        if common is None:
            raise TypeMismatch(f"values of types {first.ddl()} and {second.ddl()} have no common type")
        return common

    target = reduce(fold, types)
    if target.kind in (Kind.NULL, Kind.OTHER):
        raise NeedsSpark
    return [coerce(value, target) for value in values]


def as_condition(expression: Expression, what: str) -> Expression:
    """Return the expression as a boolean; `what` names its place in the error message."""
    if isinstance(expression, Literal) and expression.type.kind is Kind.NULL:
        return Literal(None, BOOLEAN)
    type_ = known_type(expression)
    if type_.kind is Kind.STRING and isinstance(expression, Literal):
        raise NeedsSpark
    if type_ != BOOLEAN:
        raise TypeMismatch(f"{what} must be boolean, not {type_.ddl()}: {error_text(expression)}")
    return expression


def bind_comparison(name: str, left: Expression, right: Expression) -> Expression:
    """Return a comparison in canonical form: one type on both sides, and a literal on the right."""
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return bind_comparison(_FLIPPED.get(name, name), right, left)
    first, second = known_type(left), known_type(right)
    common = common_type(first, second)
    if common is None:
        raise _incomparable(left, right)
    if common.kind is Kind.NULL:
        return Literal(None if name != "eq_null_safe" else True, BOOLEAN)
    if common.kind is Kind.OTHER:
        raise NeedsSpark
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _compare_constants(name, cast_literal(left, common).value, cast_literal(right, common).value)
    if isinstance(right, Literal) and first.kind in _EXACT:
        if second.kind is Kind.STRING:
            right = cast_literal(right, common)
        if right.type.kind in _EXACT and isinstance(right.value, int | Decimal):
            return _compare_exact(name, left, right.value)
    return Call(name, (coerce(left, common), coerce(right, common)), BOOLEAN)


def _incomparable(left: Expression, right: Expression) -> TypeMismatch:
    first, second = (f"{error_text(side)} of type {known_type(side).ddl()}" for side in (left, right))
    return TypeMismatch(
        f"cannot compare {first} with {second}",
        hint="Cast one side: CAST(… AS type).",
    )


def _compare_exact(name: str, left: Expression, value: int | Decimal) -> Expression:
    """Return the comparison of an integer or decimal with an exact number, in the type of the left side.

    The number is rounded to a value of that type that gives the same answer for every left value. Where all left values
    give the same answer, the result is `x = x` (true) or `x <> x` (false): both are NULL if `x` is NULL.
    """
    type_ = known_type(left)
    always, never = Call("eq", (left, left), BOOLEAN), Call("ne", (left, left), BOOLEAN)
    if name in ("eq", "ne", "eq_null_safe"):
        if fits_type(value, type_):
            return Call(name, (left, Literal(from_units(units(value, type_), type_), type_)), BOOLEAN)
        if name == "eq_null_safe":
            return Literal(False, BOOLEAN)
        return never if name == "eq" else always
    rounding = ROUND_FLOOR if name in ("gt", "le") else ROUND_CEILING
    count = int(Decimal(value).scaleb(type_.scale, _WIDE).to_integral_value(rounding, _WIDE))
    low, high = limits(type_)
    if count < low:
        return always if name in ("gt", "ge") else never
    if count > high:
        return always if name in ("lt", "le") else never
    return Call(name, (left, Literal(from_units(count, type_), type_)), BOOLEAN)


def _compare_constants(name: str, first: Value, second: Value) -> Literal:
    if name == "eq_null_safe" and (first is None or second is None):
        return Literal(first is second, BOOLEAN)
    if first is None or second is None:
        return Literal(None, BOOLEAN)
    if isinstance(first, float) and isinstance(second, float) and (isnan(first) or isnan(second)):
        raise NeedsSpark
    if isinstance(first, str) and isinstance(second, str):
        first, second = first.encode(), second.encode()  # Spark orders text by its bytes
    equal, less = first == second, first < second  # type: ignore[operator]
    answers = {
        "eq": equal, "eq_null_safe": equal, "ne": not equal, "lt": less, "le": less or equal,
        "gt": not less and not equal, "ge": not less,
    }  # fmt: skip
    return Literal(answers[name], BOOLEAN)


def is_string(expression: Expression) -> bool:
    """Return whether the type of the expression is string."""
    return expression.type == STRING
