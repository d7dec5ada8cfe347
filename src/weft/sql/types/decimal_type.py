"""Types of decimal arithmetic: Spark evaluates it, but sums and averages need its type when the query is bound."""

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
    """Bind a node like `bind_expression`, and cast arithmetic that is left to Spark to the type of Spark's rules."""
    expression = bind_expression(node, relation, scope)
    if not isinstance(expression, Opaque) or expression.type is not None:
        return expression
    try:
        type_ = _type(node, column_names(scope))
    except NeedsSpark:
        type_ = None
    return expression if type_ is None or type_.kind not in NUMBERS else coerce_key(expression, type_)


def multiplied(first: DataType, second: DataType) -> DataType:
    """Return the type of a product of two numbers; the sum around it widens integers to bigint."""
    return _combined(exp.Mul, first, second)


def _type(node: exp.Expr, names: Names) -> DataType | None:
    node = strip(node)
    match node:
        case exp.Neg():
            return _type(node.this, names)
        case exp.Case() | exp.Anonymous():
            types = [_type(branch, names) for branch in _branches(node)]
            return reduce(_common, types) if types else type_of(node, names)
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
    """Return the operands whose common type is the type of the node; none for other functions."""
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
    """Return the type of an integer literal beside a decimal: like in Spark, a decimal of just its digits."""
    if not isinstance(strip(node), exp.Literal | exp.Neg):
        return None
    literal = translate(node, names)
    if isinstance(literal, Literal) and isinstance(literal.value, int) and literal.type.kind in INTEGERS:
        return decimal_type(Decimal(literal.value))
    return None


def _combined(operation: type[exp.Expr], first: DataType, second: DataType) -> DataType:
    if {first.kind, second.kind} & {*FLOATS}:
        return DOUBLE
    if Kind.DECIMAL not in (first.kind, second.kind):
        return DOUBLE if operation is exp.Div else max(first, second, key=lambda type_: INTEGERS.index(type_.kind))
    left, right = (
        type_ if type_.kind is Kind.DECIMAL else DataType(Kind.DECIMAL, DIGITS[type_.kind], 0)
        for type_ in (first, second)
    )
    if operation is exp.Mul:
        return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)
    if operation is exp.Div:
        scale = max(6, left.scale + right.precision + 1)
        return bounded_decimal(left.precision - left.scale + right.scale + scale, scale)
    scale = max(left.scale, right.scale)
    return bounded_decimal(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)
