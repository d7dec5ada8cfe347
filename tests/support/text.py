"""A query spec as SQL text: expressions for any dialect, whole queries in weft's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from tests.support.generators.columns import relations_in
from tests.support.spec import (
    And,
    Arith,
    Between,
    Call,
    Col,
    Compare,
    GroupKey,
    Having,
    In,
    IsNull,
    Key,
    Length,
    Like,
    Lit,
    Mixed,
    Not,
    Or,
    OutputColumn,
    Predicate,
    Product,
    QuerySpec,
    Range,
    RelationSpec,
    Scalar,
    Session,
    Shift,
    Sliding,
    Truth,
    Unbounded,
    Window,
    WindowEdge,
)
from weft.plan.types import TIMESTAMP, Kind


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where dialects differ: names, constants, the NULL-safe equality and timestamps moved by microseconds."""

    column: Callable[[Col], str]
    literal: Callable[[Lit], str]
    null_safe: str
    shifted: Callable[[str, int], str]


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
        case Mixed(op=op, left=first, right=second):
            return f"({scalar_sql(first, dialect)} {op} {scalar_sql(second, dialect)})"
        case Shift(of=of, micros=micros):
            return dialect.shifted(dialect.column(of), micros)
        case _:
            assert_never(scalar)


def predicate_sql(predicate: Predicate, dialect: Dialect) -> str:
    """Text of a condition, in parentheses wherever it could bind wrongly."""
    match predicate:
        case Compare(op=op, left=left, right=right):
            symbol = dialect.null_safe if op == "<=>" else op
            return f"({scalar_sql(left, dialect)} {symbol} {scalar_sql(right, dialect)})"
        case Between(value=value, low=low, high=high):
            ends = f"{scalar_sql(low, dialect)} AND {scalar_sql(high, dialect)}"
            return f"({scalar_sql(value, dialect)} BETWEEN {ends})"
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
    bracketed = query.grouping is None or not query.grouping.in_group_by
    relations = [_relation_sql(relation, bracketed=bracketed) for relation in query.relations]
    predicates = [predicate_sql(r.predicate, dialect) for r in query.relations if r.predicate is not None]
    joining = [_joining_sql(query, number, dialect) for number in range(len(relations))]
    if query.style.predicates_in_on and len(relations) > 1:
        joining[-1] += predicates
        predicates = []
    if query.style.commas:
        predicates = [*(condition for conditions in joining for condition in conditions), *predicates]
        source = ", ".join(relations)
    else:
        joins = zip(relations[1:], joining[1:], strict=True)
        source = relations[0] + "".join(f" JOIN {relation}{_clause('ON', on)}" for relation, on in joins)
    text = f"SELECT {_outputs_sql(query, dialect)} FROM {source}{_clause('WHERE', predicates)}"
    return text + _grouping_sql(query, dialect)


def _joining_sql(query: QuerySpec, number: int, dialect: Dialect) -> list[str]:
    """What joins a relation with those before it."""
    pairs = [_key_sql(key, dialect) for key in query.keys] + _interval_sql(query) if number == 1 else []
    return pairs + [predicate_sql(each, dialect) for each in query.conditions if max(relations_in(each)) == number]


def _clause(word: str, conditions: list[str]) -> str:
    return f" {word} {' AND '.join(conditions)}" if conditions else ""


def _spark(query: QuerySpec) -> Dialect:
    def column(col: Col) -> str:
        return col.name if query.style.unqualified else f"{query.relations[col.relation].qualifier}.{col.name}"

    return Dialect(column, spark_literal, "<=>", _shifted)


def _relation_sql(relation: RelationSpec, *, bracketed: bool) -> str:
    window = f" {_window_sql(relation.window)}" if bracketed and relation.window is not None else ""
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
        case Session(gap=gap, longest=longest):
            return f"[SESSION {duration_sql(gap)}{'' if longest is None else f' MAX {duration_sql(longest)}'}]"
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
    texts = [_output_sql(query, output, dialect) for output in query.outputs]
    # Columns of two relations have one name in the result.
    names = [
        output.name if isinstance(output, Col) else text for output, text in zip(query.outputs, texts, strict=True)
    ]
    counts = Counter(names)
    return ", ".join(
        f"{text} AS out{index}" if query.style.aliased or counts[names[index]] > 1 else text
        for index, text in enumerate(texts)
    )


def _output_sql(query: QuerySpec, output: OutputColumn, dialect: Dialect) -> str:
    match output:
        case Col():
            return dialect.column(output)
        case WindowEdge(name=name):
            return name
        case GroupKey(number=number):
            assert query.grouping is not None
            return scalar_sql(query.grouping.keys[number], dialect)
        case Call():
            return call_sql(output, dialect)
        case _:
            assert_never(output)


_FUNCTIONS = {"distinct": "COUNT(DISTINCT {})", "approx_distinct": "approx_count_distinct({})"}


def call_sql(call: Call, dialect: Dialect) -> str:
    """Text of an aggregate."""
    match call.of:
        case None:
            argument = "*"
        case Product(left=left, right=right):
            argument = f"{dialect.column(left)} * {dialect.column(right)}"
        case _:
            argument = scalar_sql(call.of, dialect)
    return _FUNCTIONS.get(call.function, f"{call.function.upper()}({{}})").format(argument)


def _grouping_sql(query: QuerySpec, dialect: Dialect) -> str:
    if query.grouping is None:
        return ""
    keys = [scalar_sql(key, dialect) for key in query.grouping.keys]
    if query.grouping.in_group_by:
        keys.append(_window_function_sql(query, dialect))
    text = f" GROUP BY {', '.join(keys)}" if keys else ""
    return text + _having_sql(query.grouping.having, dialect)


def _window_function_sql(query: QuerySpec, dialect: Dialect) -> str:
    """The window as Spark users write it."""
    relation = query.relations[0]
    time = dialect.column(Col(0, relation.time, TIMESTAMP))
    match relation.window:
        case Sliding(size=size, slide=slide) if size == slide:
            return f"window({time}, '{duration_sql(size).lower()}')"
        case Sliding(size=size, slide=slide):
            return f"window({time}, '{duration_sql(size).lower()}', '{duration_sql(slide).lower()}')"
        case Session(gap=gap, longest=None):
            return f"session_window({time}, '{duration_sql(gap).lower()}')"
        case window:
            raise ValueError(f"no window of an aggregation: {window}")


def _having_sql(having: Having | None, dialect: Dialect) -> str:
    if having is None:
        return ""
    symbol = dialect.null_safe if having.op == "<=>" else having.op
    return f" HAVING {call_sql(having.call, dialect)} {symbol} {dialect.literal(having.constant)}"


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
