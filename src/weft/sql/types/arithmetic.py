"""Arithmetic, typed as in Spark's ANSI mode and with constants folded."""

from __future__ import annotations

from collections.abc import Callable

from weft.errors import TypeMismatch
from weft.plan.expression import Call, Expression, Literal
from weft.plan.types import BIGINT, DOUBLE, FLOATS, INTEGERS, NUMBERS, DataType, Kind
from weft.sql.syntax.literal import NeedsSpark, fits_type
from weft.sql.types.coercion import coerce, common_type, error_text, known_type

_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
}  # fmt: skip


def bind_arithmetic(name: str, left: Expression, right: Expression) -> Expression:
    """Return `add`, `sub`, `mul`, `div`, `int_div` or `mod` with both operands coerced to the type that Spark uses."""
    target = _operand_type(name, left, right)
    first, second = coerce(left, target), coerce(right, target)
    match first, second:
        case Literal(value=int(a)), Literal(value=int(b)) if name in _FOLDS and target.kind in INTEGERS:
            return _folded(_FOLDS[name](a, b), target, name)
        case _:
            return Call(name, (first, second), target)


def _operand_type(name: str, left: Expression, right: Expression) -> DataType:
    first, second = known_type(left), known_type(right)
    for operand, type_ in ((left, first), (right, second)):
        if type_.kind is Kind.BOOLEAN:
            raise TypeMismatch(f"arithmetic does not take the boolean {error_text(operand)}")
        if type_.kind not in NUMBERS:
            raise NeedsSpark
    common = common_type(first, second)
    if common is None or common.kind is Kind.DECIMAL:
        raise NeedsSpark
    if name == "div":
        return DOUBLE
    if name == "int_div":
        if common.kind not in INTEGERS:
            raise NeedsSpark
        return BIGINT
    return common


def bind_negation(operand: Expression) -> Expression:
    """Return the negated operand; literals are folded."""
    type_ = _signed(operand)
    if isinstance(operand, Literal) and operand.value is not None:
        if type_.kind in INTEGERS and isinstance(operand.value, int):
            return _folded(-operand.value, type_, "neg")
        if type_.kind in FLOATS and isinstance(operand.value, float):
            return Literal(-operand.value, type_)
    return Call("neg", (operand,), type_)


def bind_absolute(operand: Expression) -> Expression:
    """Return ABS of an integer or floating-point operand."""
    return Call("abs", (operand,), _signed(operand))


def _signed(operand: Expression) -> DataType:
    type_ = known_type(operand)
    if type_.kind is Kind.BOOLEAN:
        raise TypeMismatch(f"arithmetic does not take the boolean {error_text(operand)}")
    if type_.kind not in (*INTEGERS, *FLOATS):
        raise NeedsSpark
    return type_


def _folded(value: int, type_: DataType, name: str) -> Literal:
    if not fits_type(value, type_):
        raise TypeMismatch(
            f"the constant {name} overflows type {type_.ddl()}", hint="Write the constant as bigint, like 10L."
        )
    return Literal(value, type_)
