"""Typed expressions over the columns of one stream.

The algebra is closed. weft evaluates `Column`, `Literal` and `Call` itself, vectorized and with the same results as
Spark; `Opaque` is any other Spark SQL text, and Spark evaluates it. The binder (`sql/`) has inserted all coercions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from weft.plan.types import BOOLEAN, DataType, Kind

Value = bool | int | float | str | bytes | Decimal | date | datetime | None

# The functions of `Call`. The arguments of a comparison or of arithmetic all have the same type.
#   eq ne lt le gt ge eq_null_safe(<=>)   in(value, literal, ...)   like(value, Literal pattern[, Literal escape])
#   rlike(value, Literal pattern), where `sql/patterns/pattern.py` accepts the pattern
#   and or (n-ary, three-valued) not      is_null is_not_null       starts_with ends_with contains
#   add sub mul (ANSI: overflow raises)   div (double / double)     int_div mod (raise on zero)   neg abs
#   case(cond, value, cond, value, ..., else)   coalesce   cast (to Call.type)   length (characters)
#   year month day hour minute second (of date or timestamp, in UTC)
FUNCTIONS = frozenset(
    "eq ne lt le gt ge eq_null_safe in like rlike and or not is_null is_not_null starts_with ends_with contains "
    "add sub mul div int_div mod neg abs case coalesce cast length year month day hour minute second".split()
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the stream, spelled as in the stream's schema."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of its type; timestamps are aware (UTC), decimals have the scale of the type."""

    value: Value
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `FUNCTIONS`, applied to arguments of the right types."""

    name: str
    args: tuple[Expression, ...]
    type: DataType

    def __post_init__(self) -> None:
        if self.name not in FUNCTIONS:
            raise ValueError(f"not a function of the algebra: {self.name}")


@dataclass(frozen=True, slots=True)
class Opaque:
    """Spark SQL text over the stream's columns (backquoted names) that only Spark evaluates."""

    sql: str
    columns: tuple[str, ...]
    type: DataType | None = None


OWN_FUNCTIONS = {
    name: f"weft_{name}"
    for name in "like rlike regexp_extract regexp_substr regexp_instr regexp_replace regexp_count split".split()
}
"""Functions that weft registers with Spark, because Spark's functions of the same names can take unbounded time."""

Expression = Column | Literal | Call | Opaque

TRUE = Literal(True, BOOLEAN)


def columns_of(expression: Expression) -> frozenset[str]:
    """Return the names of the columns that an expression reads."""
    match expression:
        case Column(name=name):
            return frozenset((name,))
        case Literal():
            return frozenset()
        case Call(args=args):
            return frozenset[str]().union(*(columns_of(arg) for arg in args))
        case Opaque(columns=columns):
            return frozenset(columns)
        case _:
            assert_never(expression)


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all its subexpressions."""
    yield expression
    if isinstance(expression, Call):
        for arg in expression.args:
            yield from parts_of(arg)


def rename_columns(expression: Expression, name: Callable[[str], str]) -> Expression:
    """Return the expression with each column name replaced by `name(column)`; an `Opaque` raises ValueError."""
    match expression:
        case Column():
            return replace(expression, name=name(expression.name))
        case Call(args=args):
            return replace(expression, args=tuple(rename_columns(arg, name) for arg in args))
        case Literal():
            return expression
        case Opaque():
            raise ValueError("columns of an opaque expression cannot be renamed")
        case _:
            assert_never(expression)


def conjuncts(expression: Expression | None) -> Iterator[Expression]:
    """Yield the parts of a conjunction from left to right; yield nothing for None."""
    match expression:
        case None:
            return
        case Call(name="and", args=args):
            for arg in args:
                yield from conjuncts(arg)
        case _:
            yield expression


def guard_opaque(predicate: Expression | None) -> Expression | None:
    """Return the conjunction with each opaque part guarded: computed only where all parts before it hold.

    Spark computes opaque parts for all rows of a batch. Without the guard, `x <> 0 AND 10 / x > 1` would fail on rows
    with `x = 0`.
    """
    parts = tuple(conjuncts(predicate))
    if not any(isinstance(part, Opaque) for part in parts[1:]):
        return predicate
    guarded = []
    for position, part in enumerate(parts):
        if position and isinstance(part, Opaque):
            before = " AND ".join(to_sql(earlier) for earlier in parts[:position])
            columns = sorted(frozenset(part.columns).union(*(columns_of(earlier) for earlier in parts[:position])))
            part = Opaque(f"CASE WHEN {before} THEN {part.sql} END", tuple(columns), part.type)  # noqa: PLW2901
        guarded.append(part)
    return Call("and", tuple(guarded), BOOLEAN)


_INFIX = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "<=>",
    "add": "+", "sub": "-", "mul": "*", "div": "/", "int_div": "div", "mod": "%",
    "and": "AND", "or": "OR",
}  # fmt: skip
_NAMED = {"starts_with": "startswith", "ends_with": "endswith"}


def to_sql(expression: Expression) -> str:
    """Return the Spark SQL text of an expression. Equal expressions have equal texts."""
    match expression:
        case Column(name=name):
            return quote(name)
        case Literal():
            return _literal_sql(expression)
        case Opaque(sql=sql):
            return f"({sql})"
        case Call(name="like", args=(value, Literal() as pattern, *escape)):
            mark = str(escape[0].value) if escape and isinstance(escape[0], Literal) else None
            return like_sql(to_sql(value), str(pattern.value), mark)
        case Call(name="rlike", args=(value, pattern)):
            return f"{OWN_FUNCTIONS['rlike']}({to_sql(value)}, {to_sql(pattern)})"
        case Call(name=name, args=args, type=type_):
            return _call_sql(name, [to_sql(arg) for arg in args], type_)
        case _:
            assert_never(expression)


def quote(name: str) -> str:
    """Return any name as a quoted Spark identifier."""
    return "`" + name.replace("`", "``") + "`"


def quote_string(text: str) -> str:
    """Return a Spark string literal of exactly this text; `${` is escaped, as Spark would substitute a variable."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{").replace("\0", "\\u0000")
    return f"'{escaped}'"


def like_sql(value: str, pattern: str, escape: str | None = None) -> str:
    """Return the Spark SQL text of LIKE. Spark's matcher backtracks: with k wildcards, its time grows with the k-th
    power of the text's length. weft's own function therefore matches patterns with several wildcards."""
    text, mark = quote_string(pattern), quote_string(escape or "\\")
    if backtracks(pattern, escape or "\\"):
        return f"{OWN_FUNCTIONS['like']}({value}, {text}, {mark})"
    return f"({value} LIKE {text})" if escape is None else f"({value} LIKE {text} ESCAPE {mark})"


def backtracks(pattern: str, escape: str) -> bool:
    """Return whether a matcher would have to backtrack over two or more `%` of a LIKE pattern."""
    plain = re.sub(re.escape(escape) + ".", "x", pattern, flags=re.DOTALL)
    return len(re.findall("%+", plain.rstrip("%"))) > 1


def _call_sql(name: str, args: list[str], type_: DataType) -> str:
    if name in _INFIX:
        return "(" + f" {_INFIX[name]} ".join(args) + ")"
    match name:
        case "not":
            return f"(NOT {args[0]})"
        case "neg":
            return f"(- {args[0]})"
        case "is_null":
            return f"({args[0]} IS NULL)"
        case "is_not_null":
            return f"({args[0]} IS NOT NULL)"
        case "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        case "case":
            pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
            body = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
            return f"(CASE {body} ELSE {args[-1]} END)"
        case "cast":
            return f"CAST({args[0]} AS {type_.ddl()})"
        case _:
            return f"{_NAMED.get(name, name)}({', '.join(args)})"


def _literal_sql(literal: Literal) -> str:
    value, kind = literal.value, literal.type.kind
    if value is None:
        return f"CAST(NULL AS {literal.type.ddl()})"
    match kind:
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case Kind.STRING:
            return quote_string(str(value))
        case Kind.DATE:
            assert isinstance(value, date)
            return f"DATE'{value.isoformat()}'"
        case Kind.TIMESTAMP:
            assert isinstance(value, datetime)
            return f"TIMESTAMP'{_clock(value)}+00:00'"
        case Kind.TIMESTAMP_NTZ:
            assert isinstance(value, datetime)
            return f"TIMESTAMP_NTZ'{_clock(value)}'"
        case Kind.BINARY:
            assert isinstance(value, bytes)
            return f"X'{value.hex()}'"
        case _:
            return f"CAST({quote_string(str(value))} AS {literal.type.ddl()})"


def _clock(value: datetime) -> str:
    """Return date and time of day. `strftime` does not pad years to the four digits that Spark needs."""
    return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
