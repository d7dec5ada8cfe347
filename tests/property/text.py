"""A query spec as SQL text: expressions for any dialect, whole queries in weft's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from tests.property.spec import (
    And,
    Arith,
    Between,
    Col,
    Compare,
    In,
    IsNull,
    Key,
    Length,
    Like,
    Lit,
    Not,
    Or,
    OutputColumn,
    Predicate,
    QuerySpec,
    Range,
    RelationSpec,
    Scalar,
    Sliding,
    Truth,
    Unbounded,
    Window,
    WindowEdge,
)
from weft.plan.types import Kind


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where dialects differ: names, constants and the NULL-safe equality."""

    column: Callable[[Col], str]
    literal: Callable[[Lit], str]
    null_safe: str


def scalar_sql(scalar: Scalar, dialect: Dialect) -> str:
    """Text of a value."""
    match scalar:
        case Col():
            return dialect.column(scalar)
        case Lit():
            return dialect.literal(scalar)
        case Arith(op=op, left=left, right=right):
            return f"({dialect.column(left)} {op} {dialect.literal(right)})"
        case Length(of=of):
            return f"length({dialect.column(of)})"
        case _:
            assert_never(scalar)


def predicate_sql(predicate: Predicate, dialect: Dialect) -> str:
    """Text of a condition, in parentheses wherever it could bind wrongly."""
    match predicate:
        case Compare(op=op, left=left, right=right):
            symbol = dialect.null_safe if op == "<=>" else op
            return f"({scalar_sql(left, dialect)} {symbol} {scalar_sql(right, dialect)})"
        case Between(value=value, low=low, high=high):
            return f"({scalar_sql(value, dialect)} BETWEEN {dialect.literal(low)} AND {dialect.literal(high)})"
        case In(value=value, options=options, negated=negated):
            listed = ", ".join(dialect.literal(option) for option in options)
            return f"({scalar_sql(value, dialect)} {_not(negated)}IN ({listed}))"
        case IsNull(value=value, negated=negated):
            return f"({dialect.column(value)} IS {_not(negated)}NULL)"
        case Like(value=value, pattern=pattern, negated=negated):
            quoted = dialect.literal(Lit(pattern, value.type))
            return f"({dialect.column(value)} {_not(negated)}LIKE {quoted})"
        case Truth(value=value):
            return dialect.column(value)
        case Not(part=part):
            return f"(NOT {predicate_sql(part, dialect)})"
        case And(parts=parts):
            return "(" + " AND ".join(predicate_sql(part, dialect) for part in parts) + ")"
        case Or(parts=parts):
            return "(" + " OR ".join(predicate_sql(part, dialect) for part in parts) + ")"
        case _:
            assert_never(predicate)


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def weft_sql(query: QuerySpec) -> str:
    """The text a user would give to `create`."""
    dialect = _spark(query)
    relations = [_relation_sql(relation) for relation in query.relations]
    predicates = [predicate_sql(r.predicate, dialect) for r in query.relations if r.predicate is not None]
    text = f"SELECT {_outputs_sql(query, dialect)} FROM {relations[0]}"
    if len(relations) == 2:
        conditions = [_key_sql(key, dialect) for key in query.keys] + _interval_sql(query)
        if query.style.predicates_in_on:
            conditions, predicates = conditions + predicates, []
        text += f" JOIN {relations[1]} ON {' AND '.join(conditions)}"
    return text + (f" WHERE {' AND '.join(predicates)}" if predicates else "")


def _spark(query: QuerySpec) -> Dialect:
    def column(col: Col) -> str:
        return col.name if query.style.unqualified else f"{query.relations[col.relation].qualifier}.{col.name}"

    return Dialect(column, spark_literal, "<=>")


def _relation_sql(relation: RelationSpec) -> str:
    window = f" {_window_sql(relation.window)}" if relation.window is not None else ""
    return relation.stream + window + (f" AS {relation.alias}" if relation.alias else "")


def _window_sql(window: Window) -> str:
    match window:
        case Sliding(size=size, slide=slide) if size == slide:
            return f"[TUMBLE {duration_sql(size)}]"
        case Sliding(size=size, slide=slide):
            return f"[RANGE {duration_sql(size)} SLIDE {duration_sql(slide)}]"
        case Range(size=size):
            return f"[RANGE {duration_sql(size)}]"
        case Unbounded():
            return "[UNBOUNDED]"
        case _:
            assert_never(window)


_UNITS = (("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000), ("MILLISECOND", 1000))


def duration_sql(micros: int) -> str:
    """A duration in the largest unit that gives a whole number."""
    name, size = next(((name, size) for name, size in _UNITS if micros % size == 0), ("MICROSECOND", 1))
    count = micros // size
    return f"{count} {name}" + ("" if count == 1 else "S")


def _key_sql(key: Key, dialect: Dialect) -> str:
    left, right = scalar_sql(key.left, dialect), scalar_sql(key.right, dialect)
    return f"{right} = {left}" if key.swapped else f"{left} = {right}"


def _interval_sql(query: QuerySpec) -> list[str]:
    if query.interval is None:
        return []
    first, second = (f"{relation.qualifier}.{relation.time}" for relation in query.relations)
    low, high = query.interval.low, query.interval.high
    if low is not None and high is not None:
        return [f"{first} BETWEEN {_shifted(second, low)} AND {_shifted(second, high)}"]
    bounds = [f"{first} >= {_shifted(second, low)}"] if low is not None else []
    return bounds + ([f"{first} <= {_shifted(second, high)}"] if high is not None else [])


def _shifted(column: str, micros: int) -> str:
    if micros == 0:
        return column
    return f"{column} {'+' if micros > 0 else '-'} INTERVAL {duration_sql(abs(micros))}"


def _outputs_sql(query: QuerySpec, dialect: Dialect) -> str:
    if query.style.star:
        return "*"
    names = Counter(output.name for output in query.outputs)
    return ", ".join(_output_sql(query, index, dialect, names) for index in range(len(query.outputs)))


def _output_sql(query: QuerySpec, index: int, dialect: Dialect, names: Counter[str]) -> str:
    output: OutputColumn = query.outputs[index]
    text = output.name if isinstance(output, WindowEdge) else dialect.column(output)
    return f"{text} AS out{index}" if query.style.aliased or names[output.name] > 1 else text


def spark_literal(literal: Lit) -> str:
    """A constant in Spark's syntax."""
    value = literal.value
    if value is None:
        return "NULL"
    match literal.type.kind:
        case Kind.STRING:
            return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
        case Kind.DOUBLE:
            return double_text(value, f"{value}D")
        case Kind.DATE:
            return f"DATE'{value}'"
        case Kind.TIMESTAMP:
            assert isinstance(value, datetime)
            return f"TIMESTAMP'{value:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        case _:
            return str(value).upper()


def double_text(value: object, plain: str) -> str:
    """`plain`, unless the value has no plain text; the cast is the same in Spark and DuckDB."""
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return f"CAST('{names[str(value)]}' AS DOUBLE)" if str(value) in names else plain
