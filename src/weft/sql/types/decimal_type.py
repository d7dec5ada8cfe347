"""Types of decimal arithmetic, which Spark computes: sums and averages need to know them beforehand."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce

from sqlglot import exp

from weft.plan.expression import Expression, Literal, Opaque
from weft.plan.types import DOUBLE, FLOATS, INTEGERS, NUMBERS, DataType, Kind, bounded_decimal
from weft.sql.names.scope import Scope
from weft.sql.syntax.function_marks import MARK
from weft.sql.syntax.literal import DIGITS, NeedsSpark, decimal_type
from weft.sql.syntax.parse import strip
from weft.sql.types.bind_expression import bind_expression, column_names
from weft.sql.types.coercion import coerce_key, common_type
from weft.sql.types.result_type import type_of
from weft.sql.types.translate import Names, translate

_OPERATIONS = (exp.Add, exp.Sub, exp.Mul, exp.Div)


def bind_typed(node: exp.Expr, relation: int, scope: Scope) -> Expression:
    """Like `bind_expression`; arithmetic that is left to Spark has the type Spark's rules give it, by a cast."""
    found = bind_expression(node, relation, scope)
    if not isinstance(found, Opaque) or found.type is not None:
        return found
    try:
        type_ = _type(node, column_names(scope))
    except NeedsSpark:
        type_ = None
    return found if type_ is None or type_.kind not in NUMBERS else coerce_key(found, type_)


def multiplied(first: DataType, second: DataType) -> DataType:
    """The type of a product of two numbers; integers are widened to bigint by the sum around it."""
    return _combined(exp.Mul, first, second)


def _type(node: exp.Expr, names: Names) -> DataType | None:
    node = strip(node)
    match node:
        case exp.Neg():
            return _type(node.this, names)
        case exp.Case() | exp.Anonymous():
            parts = [_type(part, names) for part in _branches(node)]
            return reduce(_common, parts) if parts else type_of(node, names)
        case _ if isinstance(node, _OPERATIONS):
            left, right = _type(node.this, names), _type(node.expression, names)
            if left is None or right is None or left.kind not in NUMBERS or right.kind not in NUMBERS:
                return None
            if Kind.DECIMAL in (left.kind, right.kind):
                left, right = _literal_type(node.this, names) or left, _literal_type(node.expression, names) or right
            return _combined(type(node), left, right)
        case _:
            return type_of(node, names)


def _branches(node: exp.Expr) -> list[exp.Expr]:
    """The expressions whose common type is that of the node."""
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return [*(branch.args["true"] for branch in node.args["ifs"]), *([default] if default is not None else ())]
    match node.name.removeprefix(MARK).lower():
        case "coalesce" | "nvl" | "ifnull" | "abs":
            return list(node.expressions)
        case "if":
            return list(node.expressions[1:])
        case _:
            return []


def _common(first: DataType | None, second: DataType | None) -> DataType | None:
    return None if first is None or second is None else common_type(first, second)


def _literal_type(node: exp.Expr, names: Names) -> DataType | None:
    """Spark takes an integer constant beside a decimal for a decimal of just its digits."""
    if not isinstance(strip(node), exp.Literal | exp.Neg):
        return None
    found = translate(node, names)
    if isinstance(found, Literal) and isinstance(found.value, int) and found.type.kind in INTEGERS:
        return decimal_type(Decimal(found.value))
    return None


def _combined(operation: type[exp.Expr], first: DataType, second: DataType) -> DataType:
    if {first.kind, second.kind} & {*FLOATS}:
        return DOUBLE
    if Kind.DECIMAL not in (first.kind, second.kind):
        return DOUBLE if operation is exp.Div else max(first, second, key=lambda type_: INTEGERS.index(type_.kind))
    one, other = (
        type_ if type_.kind is Kind.DECIMAL else DataType(Kind.DECIMAL, DIGITS[type_.kind], 0)
        for type_ in (first, second)
    )
    if operation is exp.Mul:
        return bounded_decimal(one.precision + other.precision + 1, one.scale + other.scale)
    if operation is exp.Div:
        scale = max(6, one.scale + other.precision + 1)
        return bounded_decimal(one.precision - one.scale + other.scale + scale, scale)
    scale = max(one.scale, other.scale)
    return bounded_decimal(max(one.precision - one.scale, other.precision - other.scale) + scale + 1, scale)
