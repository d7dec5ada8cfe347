"""Expressions that Spark evaluates, made safe: bounded in time and size, and a function of the row alone."""

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
# Spark completes a time of day by the date of today. Such text is made one that is no time at all, so that the cast
# fails (or TRY_CAST gives NULL); the pattern looks at the start of the text only.
_TIME_OF_DAY = r"\A[\x00-\x20\x7f]*(?=T|[+-]?[0-9]*:)"
_NO_DATE = "a time without a date: "
# Java reads a number of n digits in n² steps. A longer text is made one that is no number.
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
    """A copy of the node that Spark may evaluate; raises `UnsupportedQuery` or `TypeMismatch` if there is none."""
    holder = exp.Paren(this=node.copy())
    check_size(holder)
    for part in reversed(list(holder.walk())):  # parts before what they are parts of
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
            _replace(part, hardened_match(part, text_test(lambda each: type_of(each, names))))
    found: exp.Expr = holder.this
    return found


def needs_spark(node: exp.Expr, names: Names) -> bool:
    """Whether only Spark can tell that a node is valid: the right number and types of arguments, and no text that
    would be converted to a time unasked."""
    try:
        translate(node, names)
    except NeedsSpark:
        return True
    return False  # all types are known, and each conversion is one of ours


def _replace(node: exp.Expr, by: exp.Expr) -> None:
    if node is by:
        return
    # The character of ESCAPE is in the match already.
    parent = node.parent
    whole = parent if isinstance(parent, exp.Escape) and not isinstance(by, exp.Like | exp.ILike) else node
    assert whole is not None
    whole.replace(by)


def _check_cast(node: exp.Expr, names: Names) -> None:
    target = data_type(node.args["to"])
    written = node.args["to"].sql(dialect="spark").lower()
    kind = node.args["to"].this
    if _NEVER.search(written) or kind in (exp.DType.TIME, exp.DType.TIMETZ, exp.DType.VARIANT):
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
    """Text that becomes a time: a literal must be one, a column is kept from being completed by the clock."""
    plain, type_ = strip(operand), type_of(operand, names)
    text = text_of(plain)
    if text is not None:
        _check_literal(text, target)
    elif type_ is None or type_.kind is Kind.STRING:
        if plain.find(exp.Column) is None and operand.find_ancestor(exp.Lambda) is None:
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
    """Text that is compared with a time is read as one."""
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


def _spoiled(operand: exp.Expr, pattern: str, by: str) -> exp.Expr:
    """The text, made invalid where the pattern matches; Spark's own function, as these patterns never go back."""
    values = [operand.copy(), exp.Literal.string(pattern), exp.Literal.string(by)]
    return exp.Anonymous(this="regexp_replace", expressions=values)


def _check_arrays(node: exp.Expr, names: Names) -> None:
    """Spark compares arrays, structs and bytes in arrays one with another: the time grows with the square."""
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
        return all(isinstance(strip(each), exp.Literal | exp.Neg | exp.Null) for each in node.expressions)
    return function_name(node) in ("split", OWN_FUNCTIONS["split"])


def _check_lambda(node: exp.Lambda, names: Names) -> None:
    """A lambda is computed for every element: what it may do with each must be small."""
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
