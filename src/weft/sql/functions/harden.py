"""Harden expressions that Spark evaluates: bound their time and size, and make them depend on the row alone."""

from __future__ import annotations

import re

from sqlglot import exp

from weft.errors import TypeMismatch, UnsupportedQuery
from weft.plan.expression import OWN_FUNCTIONS, Literal
from weft.plan.types import STRING, DataType, Kind
from weft.sql.functions.argument_rules import check_rules, function_name, text_of
from weft.sql.functions.growth import check_size
from weft.sql.functions.matching import hardened_match, is_matching, text_test
from weft.sql.syntax.literal import NeedsSpark, cast_literal
from weft.sql.syntax.parse import strip
from weft.sql.types.result_type import type_of
from weft.sql.types.translate import Names, data_type, translate

_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
_PARSERS = {
    "to_timestamp": Kind.TIMESTAMP, "to_timestamp_ltz": Kind.TIMESTAMP, "try_to_timestamp": Kind.TIMESTAMP,
    "to_timestamp_ntz": Kind.TIMESTAMP_NTZ, "to_date": Kind.DATE, "try_to_date": Kind.DATE,
}  # fmt: skip
# Spark completes a time of day with today's date. Such a text is replaced by one that is not a time, so that the cast
# fails (or TRY_CAST gives NULL). The pattern reads only the start of the text.
_TIME_OF_DAY = r"\A[\x00-\x20\x7f]*(?=T|[+-]?[0-9]*:)"
_NO_DATE = "a time without a date: "
# Java parses a number of n digits in O(n²) time. A longer text is replaced by one that is not a number.
LONGEST_NUMBER = 1000
_LONG = rf"(?s)\A.{{{LONGEST_NUMBER}}}.+"
_TOO_LONG = f"a text of more than {LONGEST_NUMBER} characters"
_NEVER = re.compile(r"\b(?:time|variant)\b")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In)
_COMPARING = frozenset("array_distinct array_except array_intersect array_union arrays_overlap".split())
_PLAIN_ARRAY = re.compile(r"array<(?:boolean|tinyint|smallint|int|bigint|float|double|decimal\([0-9,]+\)|string|date|"
                          r"timestamp|timestamp_ntz)>")  # fmt: skip
_LARGE = (Kind.STRING, Kind.BINARY, Kind.OTHER)


def harden(node: exp.Expr, names: Names) -> exp.Expr:
    """Return a copy of the node that Spark may evaluate; raise `UnsupportedQuery` or `TypeMismatch` if none is safe."""
    holder = exp.Paren(this=node.copy())
    check_size(holder)
    for part in reversed(list(holder.walk())):  # children before their parents
        check_rules(part)
        if function_name(part) in _COMPARING:
            _check_arrays(part, names)
        if isinstance(part, exp.Lambda):
            _check_lambda(part, names)
        elif isinstance(part, exp.Cast | exp.TryCast):
            _check_cast(part, names)
        elif function_name(part) in _PARSERS and len(part.expressions) == 1:
            _check_time(part.expressions[0], DataType(_PARSERS[function_name(part)]), names, known=True)
        elif isinstance(part, _COMPARISONS):
            _check_comparison(part, names)
        elif is_matching(part):
            _replace(part, hardened_match(part, text_test(lambda operand: type_of(operand, names))))
    hardened: exp.Expr = holder.this
    return hardened


def needs_spark(node: exp.Expr, names: Names) -> bool:
    """Return whether only Spark can check a node: its arguments, and implicit conversions of text to times."""
    try:
        translate(node, names)
    except NeedsSpark:
        return True
    return False  # all types are known, and weft makes all conversions


def _replace(node: exp.Expr, replacement: exp.Expr) -> None:
    if node is replacement:
        return
    # A call of weft's function already has the character of ESCAPE.
    parent = node.parent
    replaced = parent if isinstance(parent, exp.Escape) and not isinstance(replacement, exp.Like | exp.ILike) else node
    assert replaced is not None
    replaced.replace(replacement)


def _check_cast(node: exp.Expr, names: Names) -> None:
    target = data_type(node.args["to"])
    target_text = node.args["to"].sql(dialect="spark").lower()
    kind = node.args["to"].this
    if _NEVER.search(target_text) or kind in (exp.DType.TIME, exp.DType.TIMETZ, exp.DType.VARIANT):
        raise UnsupportedQuery(
            f"CAST to type {str(kind.value).lower()} is not supported",
            hint="Cast it to a timestamp, a date or a string.",
        )
    if target.kind is Kind.OTHER and "timestamp" in target.text:
        raise UnsupportedQuery(
            f"CAST to type {target.ddl()[:60]} is not supported",
            hint="Cast single values: CAST(CAST(tags[0] AS STRING) AS TIMESTAMP).",
        )
    if target.kind in _TIMES:
        _check_time(node.this, target, names, known=False)
    elif target.kind is Kind.DECIMAL:
        _check_number(node.this, names)


def _check_time(operand: exp.Expr, target: DataType, names: Names, *, known: bool) -> None:
    """Check text that becomes a time: a literal must be valid, and a column must not be completed by the clock."""
    inner, type_ = strip(operand), type_of(operand, names)
    text = text_of(inner)
    if text is not None:
        _check_literal(text, target)
    elif type_ is None or type_.kind is Kind.STRING:
        if inner.find(exp.Column) is None and operand.find_ancestor(exp.Lambda) is None:
            raise UnsupportedQuery(
                f"a computed constant as {target.ddl()} is not supported",
                detail="Spark would take some words for the time of the clock.",
                hint="Write the constant: TIMESTAMP'2030-01-31 12:00:00'.",
            )
        if known and type_ is None:
            raise TypeMismatch(
                f"the type of what is converted to {target.ddl()} is not known",
                hint="Say what it is: CAST(… AS STRING).",
            )
        if type_ is not None and target.kind is Kind.TIMESTAMP:
            operand.replace(_spoiled(operand, _TIME_OF_DAY, _NO_DATE))


def _check_comparison(node: exp.Expr, names: Names) -> None:
    """Check text literals that are compared with a time: Spark converts them to times."""
    operands = list(node.iter_expressions())
    texts = [text for part in operands if (text := text_of(part)) is not None]
    types = [type_of(part, names) for part in operands if text_of(part) is None] if texts else []
    for type_ in types:
        if type_ is not None and type_.kind in _TIMES:
            for text in texts:
                _check_literal(text, type_)


def _check_literal(text: str, target: DataType) -> None:
    try:
        cast_literal(Literal(text, STRING), target)
    except NeedsSpark:
        return
    except TypeMismatch as error:
        raise TypeMismatch(
            error.message,
            detail="Words such as 'now' and times without a date would depend on the clock.",
            hint="Write it in full, like '2030-01-31 12:00:00'.",
        ) from None


def _check_number(operand: exp.Expr, names: Names) -> None:
    text = text_of(operand)
    if text is not None and len(text) > LONGEST_NUMBER:
        raise UnsupportedQuery(f"{_TOO_LONG} as a decimal is not supported", hint="A decimal has at most 38 digits.")
    if text is None and type_of(operand, names) == STRING:
        operand.replace(_spoiled(operand, _LONG, _TOO_LONG))


def _spoiled(operand: exp.Expr, pattern: str, replacement: str) -> exp.Expr:
    """Return the text, made invalid where the pattern matches; Spark matches it, as these patterns do not backtrack."""
    values = [operand.copy(), exp.Literal.string(pattern), exp.Literal.string(replacement)]
    return exp.Anonymous(this="regexp_replace", expressions=values)


def _check_arrays(node: exp.Expr, names: Names) -> None:
    """Refuse arrays of arrays, structs or bytes: Spark compares such elements pairwise, in quadratic time."""
    for argument in node.expressions:
        if not _is_plain_array(strip(argument), names):
            raise UnsupportedQuery(
                f"function {function_name(node)}() is only supported on arrays of texts, numbers or times",
                hint="Say what it is: CAST(… AS ARRAY<STRING>).",
            )


def _is_plain_array(node: exp.Expr, names: Names) -> bool:
    if isinstance(node, exp.Cast | exp.TryCast):
        return bool(_PLAIN_ARRAY.fullmatch(data_type(node.args["to"]).ddl()))
    if isinstance(node, exp.Column):
        try:
            return bool(_PLAIN_ARRAY.fullmatch(names(node).type.ddl()))
        except NeedsSpark:
            return False
    if isinstance(node, exp.Array):
        return all(isinstance(strip(element), exp.Literal | exp.Neg | exp.Null) for element in node.expressions)
    return function_name(node) in ("split", OWN_FUNCTIONS["split"])


def _check_lambda(node: exp.Lambda, names: Names) -> None:
    """Refuse a lambda that contains a lambda or reads a large column: it is evaluated for every element."""
    if node.find_ancestor(exp.Lambda):
        raise UnsupportedQuery("a lambda inside a lambda is not supported", hint="Use array_contains(), for example.")
    for column in node.this.find_all(exp.Column):
        try:
            small = names(column).type.kind not in _LARGE
        except NeedsSpark:
            small = False
        if not small:
            raise UnsupportedQuery(
                f'column "{column.name}" inside a lambda is not supported',
                hint="A lambda may use its variable, and columns that are numbers, booleans, dates or times.",
            )
