"""Detection of expressions that can fail on some row; all others may be computed for rows that do not need them."""

from __future__ import annotations

from typing import assert_never

from weft.kernels.expression.cast import cast_may_raise
from weft.kernels.expression.text import split_pattern
from weft.kernels.expression.values import RowError
from weft.plan.expression import Call, Column, Expression, Literal, Opaque
from weft.plan.types import FLOATS


def may_raise(expression: Expression) -> bool:
    """Return whether evaluation can fail for some values of the columns."""
    match expression:
        case Column() | Literal() | Opaque():
            return False
        case Call(args=args):
            return _call_may_raise(expression) or any(may_raise(arg) for arg in args)
        case _:
            assert_never(expression)


def _call_may_raise(call: Call) -> bool:
    match call.name:
        case "add" | "sub" | "mul" | "neg" | "abs":
            return call.type.kind not in FLOATS
        case "div" | "int_div" | "mod":
            return not _harmless_divisor(call.args[1])
        case "cast":
            return cast_may_raise(call.args[0].type, call.type)
        case "like":
            return not _valid_pattern(call)
        case "hour" | "minute" | "second":
            source = call.args[0].type
            return source is not None and source.kind.value == "date"
        case _:
            return False


def _harmless_divisor(divisor: Expression) -> bool:
    return isinstance(divisor, Literal) and (divisor.value is None or divisor.value not in (0, -1))


def _valid_pattern(call: Call) -> bool:
    texts = [arg.value if isinstance(arg, Literal) else None for arg in call.args[1:]]
    if None in texts:
        return True
    try:
        split_pattern(str(texts[0]), str(texts[1]) if len(texts) > 1 else "\\")
    except RowError:
        return False
    return True
