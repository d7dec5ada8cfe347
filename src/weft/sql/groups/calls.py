"""Aggregate calls: the values that a query accumulates, and the formulas of AVG, STDDEV and others over them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from weft.errors import TypeMismatch, UnsupportedQuery
from weft.plan.aggregation import AggregateCall, Function
from weft.plan.expression import Column, Expression, Literal, Opaque, quote
from weft.plan.types import BIGINT, DOUBLE, FLOATS, INT, NUMBERS, DataType, Kind
from weft.sql.functions.allowlist import COMPUTED, WINDOWS
from weft.sql.groups.arguments import Argument, bind_argument
from weft.sql.names.scope import Scope
from weft.sql.syntax.literal import NeedsSpark
from weft.sql.syntax.parse import called, calls_in, strip
from weft.sql.syntax.spark_text import short_text
from weft.sql.types.decimal_type import multiplied
from weft.sql.types.translate import translate

_DEVIATIONS = {
    "std": (True, True), "stddev": (True, True), "stddev_samp": (True, True), "stddev_pop": (True, False),
    "variance": (False, True), "var_samp": (False, True), "var_pop": (False, False),
}  # fmt: skip
_WHOLE = DataType(Kind.DECIMAL, 38, 0)
_PERCENTILES = ("percentile_approx", "approx_percentile")


@dataclass(frozen=True, slots=True)
class Value:
    """Spark SQL over the columns of a group; `source` is set if the value is just such a column."""

    sql: str
    type: DataType | None
    source: str | None = None


@dataclass(slots=True)
class Calls:
    """The distinct aggregate calls of a query; filled while the SELECT list and HAVING are read."""

    scope: Scope
    found: list[AggregateCall] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def add(self, call: AggregateCall) -> Value:
        """Add a call unless an equal one is present; return the column of its value."""
        name = self.names.setdefault(call.id, f"a{len(self.found)}")
        if name == f"a{len(self.found)}":
            self.found.append(call)
        for argument, source in zip(call.arguments, self.scope.sources, strict=True):
            if isinstance(argument, Opaque):
                stream = source.stream.name
                self.notices.append(f'"{argument.sql}" is evaluated by Spark: stream "{stream}" takes the row path')
        return Value(quote(name), call.result, name)


def lower_call(node: exp.Expr, calls: Calls) -> Value:
    """Return the value of an aggregate call, with or without FILTER; add the calls that it needs to `calls`."""
    call = strip(node.this) if isinstance(node, exp.Filter) else node
    condition = node.expression.this if isinstance(node, exp.Filter) else None
    name = called(call, COMPUTED)
    arguments = list(call.expressions)
    _check_inside(call, condition)
    if name == "count":
        return _count(call, condition, calls)
    if any(isinstance(argument, exp.Distinct | exp.Star) for argument in arguments):
        raise UnsupportedQuery(f'"{short_text(call)}" is not supported', hint="Only COUNT takes DISTINCT and *.")
    if name in _PERCENTILES:
        return _percentiles(call, condition, calls)
    if len(arguments) != 1:
        raise UnsupportedQuery(f'"{short_text(call)}" is not supported', hint=f"{name.upper()} takes one argument.")
    argument = bind_argument(arguments[0], condition, calls.scope, products=name in ("sum", "avg", "mean"))
    return _lower(name, argument, calls)


def _lower(name: str, argument: Argument, calls: Calls) -> Value:
    match name:
        case "sum":
            return calls.add(AggregateCall(Function.SUM, argument.expressions, _sum_type(name, argument)))
        case "min" | "max":
            return calls.add(AggregateCall(Function(name), argument.expressions, _comparable(name, argument)))
        case "approx_count_distinct":
            _comparable(name, argument)
            return calls.add(AggregateCall(Function.APPROX_DISTINCT, argument.expressions, BIGINT))
        case "avg" | "mean":
            return _average(name, argument, calls)
        case _:
            return _deviation(name, argument, calls)


def _check_inside(call: exp.Expr, condition: exp.Expr | None) -> None:
    for root in (*call.expressions, *([condition] if condition is not None else ())):
        inner = next(calls_in(root, COMPUTED | WINDOWS), None)
        if inner is not None:
            raise UnsupportedQuery(
                f'"{short_text(inner)}" inside the aggregate function "{short_text(call)}" is not supported',
                hint="An aggregate takes columns and expressions of them.",
            )


def _count(call: exp.Expr, condition: exp.Expr | None, calls: Calls) -> Value:
    arguments: Sequence[exp.Expr] = call.expressions
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = arguments[0].expressions
    if len(arguments) != 1 or isinstance(strip(arguments[0]), exp.Tuple) or _is_star(arguments[0], distinct=distinct):
        raise UnsupportedQuery(f'"{short_text(call)}" is not supported', hint="COUNT takes * or one expression.")
    node = exp.Literal.number(1) if isinstance(arguments[0], exp.Star) else arguments[0]
    argument = bind_argument(node, condition, calls.scope, products=not distinct)
    if distinct:
        _comparable("count", argument)
        return calls.add(AggregateCall(Function.COUNT_DISTINCT, argument.expressions, BIGINT))
    match argument.expressions[0]:
        case Literal(value=None):
            argument = Argument((Literal(None, INT), *argument.expressions[1:]), (INT,), argument.text)
        case Literal():
            return calls.add(AggregateCall(Function.ROWS, (None,) * len(argument.expressions), BIGINT))
        case _:
            pass
    return calls.add(AggregateCall(Function.COUNT, argument.expressions, BIGINT))


def _is_star(node: exp.Expr, *, distinct: bool) -> bool:
    """Return whether a node is a star that COUNT does not take."""
    if isinstance(node, exp.Star):
        return distinct
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Star)


def _average(name: str, argument: Argument, calls: Calls) -> Value:
    sum_type = _sum_type(name, argument)
    # As in Spark, only SUM overflows: an average of bigints uses a sum that has room for all of them.
    total_type = _WHOLE if _product_type(argument) == BIGINT else sum_type
    total = calls.add(AggregateCall(Function.SUM, argument.expressions, total_type)).sql
    count = calls.add(AggregateCall(Function.COUNT, argument.expressions, BIGINT)).sql
    if sum_type.kind is not Kind.DECIMAL:
        return Value(f"CAST({total} AS DOUBLE) / NULLIF({count}, 0)", DOUBLE)
    exact = _product_type(argument)
    result = DataType(Kind.DECIMAL, min(exact.precision + 4, 38), min(exact.scale + 4, 38))
    divided = f"{total} / CAST(NULLIF({count}, 0) AS DECIMAL(20,0))"
    return Value(f"CAST({divided} AS {result.ddl().upper()})", result)


def _deviation(name: str, argument: Argument, calls: Calls) -> Value:
    root, sample = _DEVIATIONS[name]
    count = calls.add(AggregateCall(Function.COUNT, argument.expressions, BIGINT)).sql
    spread = calls.add(AggregateCall(Function.SPREAD, _numbers(name, argument), DOUBLE)).sql
    variance = f"{spread} / ({count} - 1)" if sample else f"{spread} / {count}"
    body = f"SQRT({variance})" if root else variance
    return Value(f"CASE WHEN {count} > {int(sample)} THEN {body} END", DOUBLE)


def _percentiles(call: exp.Expr, condition: exp.Expr | None, calls: Calls) -> Value:
    name = called(call, COMPUTED)
    if len(call.expressions) not in (2, 3):
        raise UnsupportedQuery(
            f'"{short_text(call)}" is not supported',
            hint=f"Write {name}(x, 0.5) or {name}(x, array(0.5, 0.9)).",
        )
    if len(call.expressions) == 3:
        calls.notices.append(f"the accuracy of {name}() is not used")
    argument = bind_argument(call.expressions[0], condition, calls.scope, products=False)
    expressions, result = _numbers(name, argument), _known(name, argument)[0]
    fraction_node = strip(call.expressions[1])
    nodes = fraction_node.expressions if isinstance(fraction_node, exp.Array) else [fraction_node]
    fractions = [_fraction(node, call) for node in nodes]
    if not fractions:
        raise TypeMismatch(f'the array of fractions of "{short_text(call)}" is empty')
    values = [calls.add(AggregateCall(Function.QUANTILE, expressions, result, fraction)) for fraction in fractions]
    if not isinstance(fraction_node, exp.Array):
        return values[0]
    return Value(
        f"array({', '.join(value.sql for value in values)})", DataType(Kind.OTHER, text=f"array<{result.ddl()}>")
    )


def _fraction(node: exp.Expr, call: exp.Expr) -> float:
    def no_columns(column: exp.Column) -> Column:
        raise NeedsSpark

    constant: Expression | None = None
    with suppress(NeedsSpark):
        constant = translate(node, no_columns)
    if not isinstance(constant, Literal) or constant.type.kind not in NUMBERS or constant.value is None:
        raise TypeMismatch(f'the fraction "{short_text(node)}" of "{short_text(call)}" must be a constant number')
    value = float(constant.value)  # type: ignore[arg-type]
    if not 0 <= value <= 1:
        raise TypeMismatch(f'the fraction {value} of "{short_text(call)}" is not between 0 and 1')
    return value


def _numbers(name: str, argument: Argument) -> tuple[Expression | None, ...]:
    """Return the argument of a function that computes in doubles; refuse arguments that are not numbers."""
    for type_ in argument.types:
        if type_ is not None and type_.kind not in NUMBERS:
            raise _mismatch(name, argument, type_)
    return argument.expressions


def _comparable(name: str, argument: Argument) -> DataType:
    type_ = _known(name, argument)[0]
    if type_.kind in (Kind.OTHER, Kind.NULL):
        raise TypeMismatch(
            f"{name}() does not take {argument.text} of type {type_.ddl()}", hint="It takes values that have an order."
        )
    return type_


def _sum_type(name: str, argument: Argument) -> DataType:
    """Return Spark's type of a sum, which only a very large number of rows can overflow."""
    for type_ in _known(name, argument):
        if type_.kind not in NUMBERS:
            raise _mismatch(name, argument, type_)
    product = _product_type(argument)
    if product.kind is Kind.DECIMAL:
        return DataType(Kind.DECIMAL, min(38, product.precision + 10), product.scale)
    return DOUBLE if product.kind in FLOATS else BIGINT


def _mismatch(name: str, argument: Argument, type_: DataType) -> TypeMismatch:
    # Spark would cast text to double, and fail on the first row that does not hold a number.
    hint = "Say which number it is: CAST(… AS DOUBLE)." if type_.kind is Kind.STRING else "It takes numbers."
    return TypeMismatch(f"{name}() does not take {argument.text} of type {type_.ddl()}", hint=hint)


def _known(name: str, argument: Argument) -> tuple[DataType, ...]:
    types = tuple(type_ for type_ in argument.types if type_ is not None)
    if len(types) != len(argument.types):
        raise UnsupportedQuery(
            f"the type of {argument.text} in {name}() is not known", hint="Say what it is: CAST(… AS type)."
        )
    return types


def _product_type(argument: Argument) -> DataType:
    """Return the type of the product of all expressions of the argument, by Spark's rules."""
    return reduce(multiplied, (type_ for type_ in argument.types if type_ is not None))
