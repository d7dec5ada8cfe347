"""Translate syntax nodes to typed expressions of the closed algebra that weft evaluates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from weft.errors import InvalidStream, TypeMismatch
from weft.plan.expression import Call, Column, Expression, Literal
from weft.plan.types import BOOLEAN, INT, NULL, STRING, DataType, Kind
from weft.sql.functions.matching import check_like, checked_regex
from weft.sql.syntax.function_marks import MARK
from weft.sql.syntax.literal import NeedsSpark, cast_literal, integer, number
from weft.sql.syntax.parse import flatten, strip
from weft.sql.syntax.schema import parse_type
from weft.sql.types.arithmetic import bind_absolute, bind_arithmetic, bind_negation
from weft.sql.types.coercion import as_condition, bind_comparison, coerce, is_string, known_type, unify_types
from weft.sql.types.membership import membership

Names = Callable[[exp.Column], Column]

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
    exp.NullSafeEQ: "eq_null_safe",
}  # fmt: skip
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div", exp.IntDiv: "int_div", exp.Mod: "mod",
}  # fmt: skip
# The arguments that the handlers read. A node with any other one set is left to Spark: sqlglot keeps adding options.
_UNDERSTOOD = frozenset(
    "this expression expressions low high ifs default to safe typed is_string table db catalog negate".split()
)
_DATE_PARTS = {"year": "year", "month": "month", "day": "day", "dayofmonth": "day"}
_TIME_PARTS = {"hour": "hour", "minute": "minute", "second": "second"}
_TEXT_TESTS = {
    "startswith": "starts_with", "endswith": "ends_with", "contains": "contains",
    "rlike": "rlike", "regexp": "rlike", "regexp_like": "rlike",
}  # fmt: skip


def translate(node: exp.Expr, names: Names) -> Expression:
    """Return the typed expression of a node; raise `TypeMismatch`, or `NeedsSpark` if weft cannot evaluate the node."""
    node = strip(node)
    kind = type(node)
    if any(value and key not in _UNDERSTOOD for key, value in node.args.items()):
        raise NeedsSpark
    if kind in _COMPARISONS:
        return bind_comparison(_COMPARISONS[kind], translate(node.this, names), translate(node.expression, names))
    if kind in _ARITHMETIC:
        return bind_arithmetic(_ARITHMETIC[kind], translate(node.this, names), translate(node.expression, names))
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise NeedsSpark
    return handler(node, names)


def data_type(node: exp.Expr) -> DataType:
    """Return the type that a CAST names."""
    try:
        return parse_type(node.sql(dialect="spark"))
    except InvalidStream as error:
        raise TypeMismatch(f"unknown type in CAST: {node.sql(dialect='spark')[:60]}") from error


def _column(node: exp.Expr, names: Names) -> Expression:
    assert isinstance(node, exp.Column)
    column = names(node)
    if column.type.kind is Kind.NULL:
        raise NeedsSpark
    return column


def _literal(node: exp.Expr, names: Names) -> Expression:
    assert isinstance(node, exp.Literal)
    return Literal(node.name, STRING) if node.is_string else number(node.name)


def _boolean(node: exp.Expr, names: Names) -> Expression:
    return Literal(bool(node.this), BOOLEAN)


def _null(node: exp.Expr, names: Names) -> Expression:
    return Literal(None, NULL)


def _neg(node: exp.Expr, names: Names) -> Expression:
    inner = node.this
    # The sign belongs to the literal: -2147483648 is an int although 2147483648 is not.
    if isinstance(inner, exp.Literal) and not inner.is_string:
        literal = number(inner.name)
        if isinstance(literal.value, int):
            return integer(-literal.value)
        if literal.type.kind is Kind.DECIMAL and literal.value is not None:
            value = -literal.value  # type: ignore[operator]
            return integer(int(value)) if literal.type.scale == 0 else Literal(value, literal.type)
    return bind_negation(translate(inner, names))


def _connective(name: str, node: exp.Expr, names: Names) -> Expression:
    what = f"an operand of {name.upper()}"
    operands = [as_condition(translate(operand, names), what) for operand in flatten(node, type(node))]
    return Call(name, tuple(operands), BOOLEAN)


def _not(node: exp.Expr, names: Names) -> Expression:
    inner = as_condition(translate(node.this, names), "the operand of NOT")
    if isinstance(inner, Call) and inner.name == "is_null":
        return Call("is_not_null", inner.args, BOOLEAN)
    if isinstance(inner, Literal):
        return Literal(None if inner.value is None else not inner.value, BOOLEAN)
    return Call("not", (inner,), BOOLEAN)


def _is(node: exp.Expr, names: Names) -> Expression:
    if not isinstance(node.expression, exp.Null):
        raise NeedsSpark
    return _null_test("is_null", translate(node.this, names))


def _null_test(name: str, value: Expression) -> Expression:
    if known_type(value).kind is Kind.OTHER:
        raise NeedsSpark
    if isinstance(value, Literal):
        return Literal((value.value is None) is (name == "is_null"), BOOLEAN)
    return Call(name, (value,), BOOLEAN)


def _distinct_from(node: exp.Expr, names: Names) -> Expression:
    equal = bind_comparison("eq_null_safe", translate(node.this, names), translate(node.expression, names))
    if isinstance(equal, Literal):
        return Literal(not equal.value, BOOLEAN)
    return Call("not", (equal,), BOOLEAN)


def _between(node: exp.Expr, names: Names) -> Expression:
    value, low, high = (translate(node.args[key], names) for key in ("this", "low", "high"))
    if is_string(low) is not is_string(high):
        raise NeedsSpark
    return Call("and", (bind_comparison("ge", value, low), bind_comparison("le", value, high)), BOOLEAN)


def _in(node: exp.Expr, names: Names) -> Expression:
    return membership(translate(node.this, names), [translate(item, names) for item in node.expressions])


def _like(node: exp.Expr, names: Names, escape: str = "\\") -> Expression:
    value, pattern = translate(node.this, names), translate(node.expression, names)
    if not (
        is_string(value) and isinstance(pattern, Literal) and isinstance(pattern.value, str) and is_string(pattern)
    ):
        raise NeedsSpark
    check_like(pattern.value, escape)
    extra = () if escape == "\\" else (Literal(escape, STRING),)
    like = Call("like", (value, pattern, *extra), BOOLEAN)
    return Call("not", (like,), BOOLEAN) if node.args.get("negate") else like


def _regex(node: exp.Expr, names: Names) -> Expression:
    return _rlike(translate(node.this, names), translate(node.expression, names))


def _rlike(value: Expression, pattern: Expression) -> Expression:
    if not (
        is_string(value) and isinstance(pattern, Literal) and isinstance(pattern.value, str) and is_string(pattern)
    ):
        raise NeedsSpark
    literal_text = checked_regex(pattern.value, "rlike")
    return (
        Call("rlike", (value, pattern), BOOLEAN)
        if literal_text is None
        else Call("contains", (value, Literal(literal_text, STRING)), BOOLEAN)
    )


def _escape(node: exp.Expr, names: Names) -> Expression:
    like, mark = node.this, node.expression
    if type(like) is not exp.Like or not isinstance(mark, exp.Literal) or not mark.is_string or len(mark.name) != 1:
        raise NeedsSpark
    return _like(like, names, mark.name)


def _case(node: exp.Expr, names: Names) -> Expression:
    subject = translate(node.this, names) if node.this is not None else None
    conditions: list[Expression] = []
    values: list[Expression] = []
    for branch in node.args["ifs"]:
        condition = translate(branch.this, names)
        if subject is not None:
            condition = bind_comparison("eq", subject, condition)
        conditions.append(as_condition(condition, "the condition of CASE"))
        values.append(translate(branch.args["true"], names))
    default = node.args.get("default")
    values.append(translate(default, names) if default is not None else Literal(None, NULL))
    return _cases(conditions, values)


def _cases(conditions: list[Expression], values: list[Expression]) -> Expression:
    *branches, default = unify_types(values)
    args = [operand for pair in zip(conditions, branches, strict=True) for operand in pair]
    return Call("case", (*args, default), known_type(default))


def _cast(node: exp.Expr, names: Names) -> Expression:
    target = data_type(node.args["to"])
    inner = translate(node.this, names)
    if isinstance(inner, Literal):
        if node.args.get("safe") or target.kind is Kind.STRING:
            raise NeedsSpark
        return cast_literal(inner, target)
    return coerce(inner, target)


def _extract(node: exp.Expr, names: Names) -> Expression:
    part = node.this.name.lower()
    if part in ("second", "seconds"):
        raise NeedsSpark  # EXTRACT(SECOND) gives a decimal with the fraction
    return _part(part, translate(node.expression, names))


def _part(name: str, value: Expression) -> Expression:
    type_ = known_type(value)
    function = _DATE_PARTS.get(name) if type_.kind in (Kind.DATE, Kind.TIMESTAMP) else None
    function = function or (_TIME_PARTS.get(name) if type_.kind is Kind.TIMESTAMP else None)
    if function is None:
        raise NeedsSpark
    return Call(function, (value,), INT)


def _function(node: exp.Expr, names: Names) -> Expression:
    name = node.name.removeprefix(MARK).lower()
    args = [translate(arg, names) for arg in node.expressions]
    match name, args:
        case (("isnull" | "isnotnull"), [value]):
            return _null_test("is_null" if name == "isnull" else "is_not_null", value)
        case "abs", [value]:
            return bind_absolute(value)
        case ("negative", [value]):
            return bind_negation(value)
        case "mod", [left, right]:
            return bind_arithmetic("mod", left, right)
        case (("length" | "len" | "char_length" | "character_length"), [value]) if is_string(value):
            return Call("length", (value,), INT)
        case _, [value] if name in _DATE_PARTS or name in _TIME_PARTS:
            return _part(name, value)
        case _, [value, searched] if name in _TEXT_TESTS and is_string(value) and is_string(searched):
            test = _TEXT_TESTS[name]
            return _rlike(value, searched) if test == "rlike" else Call(test, (value, searched), BOOLEAN)
        case "if", [condition, chosen, other]:
            return _cases([as_condition(condition, "the condition of IF")], [chosen, other])
        case ("coalesce", [_, *_]) | ("nvl" | "ifnull", [_, _]):
            values = unify_types(args)
            return Call("coalesce", tuple(values), known_type(values[0]))
        case _:
            raise NeedsSpark


_HANDLERS: dict[type[exp.Expr], Callable[[exp.Expr, Names], Expression]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Neg: _neg,
    exp.And: partial(_connective, "and"),
    exp.Or: partial(_connective, "or"),
    exp.Not: _not,
    exp.Is: _is,
    exp.NullSafeNEQ: _distinct_from,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.RegexpLike: _regex,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.Anonymous: _function,
}
