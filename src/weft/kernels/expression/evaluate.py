"""Evaluation of expressions over Arrow batches, with the results that Spark SQL (ANSI mode, UTC) computes row by row.

An expression that cannot fail is computed for all rows at once. An expression that can fail is computed only for the
rows on which Spark would evaluate it: those that no earlier argument of AND, OR, CASE or COALESCE has decided and that
no earlier operand has made NULL.
"""

from __future__ import annotations

import functools
from typing import TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.kernels.arrow_types import arrow_type
from weft.kernels.expression.arithmetic import absolute, arithmetic, divide, divide_integral, negate, remainder
from weft.kernels.expression.cast import cast
from weft.kernels.expression.compare import compare, equal_null_safe, is_in
from weft.kernels.expression.pattern import matches
from weft.kernels.expression.raises import may_raise
from weft.kernels.expression.text import find_text, length, like
from weft.kernels.expression.time import time_field
from weft.kernels.expression.values import (
    Datum,
    RowError,
    flat,
    has_nulls,
    is_null_scalar,
    scatter,
    to_array,
    to_bools,
    true_rows,
)
from weft.plan.expression import Call, Column, Expression, Literal, Opaque, to_sql
from weft.plan.types import BOOLEAN, DataType, Kind

Batch: TypeAlias = pa.RecordBatch | pa.Table
Rows = npt.NDArray[np.bool_]


class EvaluationError(Exception):
    """The failure of an expression on some row of a batch; the message names the reason and the expression."""


def evaluate(expression: Expression, batch: Batch) -> pa.Array:
    """Return the expression's value in each row; read an `Opaque` from the batch column named by its SQL."""
    return to_array(_value(expression, batch), batch.num_rows)


def batch_columns(expression: Expression) -> frozenset[str]:
    """Return the names of the batch columns that `evaluate` reads; the column of an `Opaque` is named by its SQL."""
    match expression:
        case Column(name=name):
            return frozenset((name,))
        case Opaque(sql=sql):
            return frozenset((sql,))
        case Call(args=args):
            return frozenset[str]().union(*(batch_columns(arg) for arg in args))
        case Literal():
            return frozenset()
        case _:
            assert_never(expression)


def _value(expression: Expression, batch: Batch) -> Datum:
    match expression:
        case Column(name=name, type=type_):
            return _typed(flat(batch.column(name)), type_)
        case Opaque(sql=sql, type=type_):
            return _typed(flat(batch.column(sql)), type_)
        case Literal(value=value, type=type_):
            return pa.scalar(value, arrow_type(type_))
        case Call():
            return _call(expression, batch)
        case _:
            assert_never(expression)


def _typed(array: pa.Array, type_: DataType | None) -> pa.Array:
    if type_ is None or type_.kind is Kind.OTHER or array.type == (target := arrow_type(type_)):
        return array
    return array.cast(target)


def _call(call: Call, batch: Batch) -> Datum:
    match call.name:
        case "and" | "or":
            return _connect(call, batch)
        case "case":
            return _case(call, batch)
        case "coalesce":
            return _coalesce(call, batch)
        case "is_null":
            return pc.is_null(_value(call.args[0], batch))
        case "is_not_null":
            return pc.is_valid(_value(call.args[0], batch))
        case "in":
            return _in(call, batch)
        case "eq_null_safe":
            return equal_null_safe(*(_value(arg, batch) for arg in call.args))
        case _:
            return _strict_call(call, batch)


def _strict_call(call: Call, batch: Batch) -> Datum:
    """Evaluate a call that is NULL where any argument is NULL; name the call in its EvaluationError."""
    args = _strict_args(call, batch)
    if any(is_null_scalar(arg) for arg in args):
        return pa.scalar(None, arrow_type(call.type))
    try:
        return _strict(call, args)
    except RowError as error:
        raise EvaluationError(f"{error} in {to_sql(call)}") from error


def _strict_args(call: Call, batch: Batch) -> list[Datum]:
    """Evaluate arguments in Spark's order: a later one is not computed where an earlier one is NULL."""
    # Spark evaluates the divisor before the dividend.
    order = list(reversed(call.args)) if call.name in ("div", "int_div", "mod") else list(call.args)
    values: list[Datum] = []
    for arg in order:
        if any(has_nulls(value) for value in values) and may_raise(arg):
            present = functools.reduce(np.logical_and, (_present(value, batch.num_rows) for value in values))
            values.append(_value_on(arg, batch, present))
        else:
            values.append(_value(arg, batch))
    return values if order[0] is call.args[0] else values[::-1]


def _strict(call: Call, args: list[Datum]) -> Datum:
    match call.name:
        case "eq" | "ne" | "lt" | "le" | "gt" | "ge":
            return compare(call.name, args[0], args[1])
        case "not":
            return pc.invert(args[0])
        case "like":
            return like(args[0], args[1].as_py(), args[2].as_py() if len(args) > 2 else "\\")
        case "rlike":
            return matches(args[0], args[1].as_py())
        case "starts_with" | "ends_with" | "contains":
            return find_text(call.name, args[0], args[1])
        case "length":
            return length(args[0])
        case "cast":
            return cast(args[0], call.args[0], call.type)
        case "year" | "month" | "day" | "hour" | "minute" | "second":
            return time_field(call.name, args[0])
        case _:
            return _number(call, args)


def _number(call: Call, args: list[Datum]) -> Datum:
    match call.name:
        case "add" | "sub" | "mul":
            return arithmetic(call.name, args[0], args[1], arrow_type(call.type))
        case "div":
            return divide(args[0], args[1])
        case "int_div":
            return divide_integral(args[0], args[1])
        case "mod":
            return remainder(args[0], args[1], arrow_type(call.type))
        case "neg":
            return negate(args[0])
        case "abs":
            return absolute(args[0])
        case _:
            raise AssertionError(f"function {call.name} is not evaluated")


def _in(call: Call, batch: Batch) -> Datum:
    value = _value(call.args[0], batch)
    options = [_value(arg, batch) for arg in call.args[1:]]
    if is_null_scalar(value):
        return pa.scalar(None, pa.bool_())
    if all(isinstance(option, pa.Scalar) for option in options):
        return is_in(value, options)
    return functools.reduce(pc.or_kleene, (compare("eq", value, option) for option in options))


def _connect(call: Call, batch: Batch) -> Datum:
    """Evaluate AND or OR; compute an argument that may raise only where the arguments before it have not decided."""
    combine, deciding = (pc.and_kleene, False) if call.name == "and" else (pc.or_kleene, True)
    result = _value(call.args[0], batch)
    for arg in call.args[1:]:
        if not may_raise(arg):
            result = combine(result, _value(arg, batch))
            continue
        undecided = ~true_rows(pc.equal(result, deciding), batch.num_rows)
        result = combine(result, _value_on(arg, batch, undecided))
    return result


def _case(call: Call, batch: Batch) -> Datum:
    """Evaluate CASE: test the conditions in turn; compute a branch that may raise only where it is chosen."""
    rows = batch.num_rows
    result: Datum = pa.scalar(None, arrow_type(call.type))
    undecided: Rows = np.ones(rows, np.bool_)
    *pairs, otherwise = call.args
    for condition, branch in zip(pairs[::2], pairs[1::2], strict=True):
        chosen = undecided & true_rows(_value_on(condition, batch, undecided), rows)
        result = _choose(branch, batch, chosen, result)
        undecided = undecided & ~chosen
    return _choose(otherwise, batch, undecided, result)


def _coalesce(call: Call, batch: Batch) -> Datum:
    """Return the first argument that is not NULL."""
    result = _value(call.args[0], batch)
    for arg in call.args[1:]:
        missing = ~_present(result, batch.num_rows)
        if not missing.any():
            break
        result = pc.coalesce(result, _value_on(arg, batch, missing))
    return result


def _choose(branch: Expression, batch: Batch, chosen: Rows, result: Datum) -> Datum:
    """Fill the chosen rows, which are NULL in `result`, with the value of the branch."""
    if not chosen.any():
        return result
    value = _value_on(branch, batch, chosen)
    return result if is_null_scalar(value) else pc.if_else(pa.array(chosen), value, result)


def _value_on(expression: Expression, batch: Batch, rows: Rows) -> Datum:
    """Return the value in the marked rows; other rows are NULL if the expression may raise, and arbitrary if not."""
    if not may_raise(expression) or rows.all():
        return _value(expression, batch)
    columns = batch.select(sorted(batch_columns(expression)))
    if columns.num_columns == 0:  # a constant that may raise: compute it if any row needs it
        if not rows.any():
            return pa.scalar(None, arrow_type(_type(expression)))
        return _value(expression, batch)
    subset = columns.filter(pa.array(rows))
    value = to_array(_value(expression, subset), subset.num_rows)
    return scatter(value, rows, pa.nulls(batch.num_rows, value.type))


def _type(expression: Expression) -> DataType:
    return expression.type or BOOLEAN


def _present(datum: Datum, rows: int) -> Rows:
    if isinstance(datum, pa.Scalar):
        return np.full(rows, datum.is_valid)
    return to_bools(datum.is_valid())
