"""A query spec as DuckDB's SQL over tables of the whole input, with what the oracle knows of the query's life."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from tests.support.spec import (
    Call,
    Col,
    GroupKey,
    Lit,
    OutputColumn,
    Product,
    QuerySpec,
    Range,
    Scalar,
    Session,
    Sliding,
    Unbounded,
    WindowEdge,
    type_of,
)
from tests.support.text import Dialect, double_text, predicate_sql, scalar_sql
from weft.plan.types import Kind


@dataclass(frozen=True, slots=True)
class Life:
    """A query lives in batches `first` ≤ b < `end`; its rows begin at `start`, its watermark ends at `watermark`."""

    first: int
    end: int
    start: int | None
    watermark: int | None


def to_duckdb(query: QuerySpec, life: Life) -> str:
    """The query alone."""
    if query.grouping is None:
        return _matches(query, life, [_output(query, output) for output in query.outputs])
    keys = [f"{_group_key(key, _DIALECT)} AS g{number}" for number, key in enumerate(query.grouping.keys)]
    having = query.grouping.having
    calls = [*_calls(query), *([having.call] if having else [])]
    arguments = [f"{_argument(call)} AS x{number}" for number, call in enumerate(calls)]
    start, end = _edges(query)
    matches = _matches(query, life, [*keys, *arguments, f"{start} AS window_start", f"{end} AS window_end"])
    groups = ", ".join(["window_start", "window_end", *(f"g{number}" for number in range(len(keys)))])
    outputs = ", ".join(_grouped_output(query, position) for position in range(len(query.outputs)))
    text = f"SELECT {outputs} FROM ({matches}) GROUP BY {groups}"
    if having is None:
        return text
    operator = _DIALECT.null_safe if having.op == "<=>" else having.op
    return f"{text} HAVING {_call(having.call, len(calls) - 1)} {operator} {duckdb_literal(having.constant)}"


def _matches(query: QuerySpec, life: Life, columns: list[str]) -> str:
    """These columns of every combination of tuples, once per window it is reported in."""
    relations = [_relation(query, side, life) for side in range(len(query.relations))]
    conditions = [*_keys(query), *(predicate_sql(each, _DIALECT) for each in query.conditions), *_times(query)]
    if (window := query.sliding) is not None:
        # One candidate more than needed on either side: the conditions decide, not how DuckDB rounds a division.
        bounds = f"(r0._t - {window.size}) // {window.slide} - 2, r0._t // {window.slide} + 2"
        relations.append(f"unnest(generate_series({bounds})) AS w(_k)")
        conditions += _in_window(query)
        if life.start is not None:
            conditions.append(f"{_edges(query)[0]} >= {life.start}")
    if (session := query.session) is not None:
        relations.append(f"({_sessions(query, life, session)}) AS w")
        conditions += [*_in_window(query), *_same_session_key(query)]
    if query.waits:
        conditions.append("FALSE" if life.watermark is None else f"{_edges(query)[1]} <= {life.watermark}")
    return f"SELECT {', '.join(columns)} FROM {', '.join(relations)} WHERE {' AND '.join(conditions) or 'TRUE'}"


def _relation(query: QuerySpec, side: int, life: Life) -> str:
    relation = query.relations[side]
    conditions = [f"_batch >= {life.first}", f"_batch < {life.end}", "NOT _late"]
    if life.start is not None:
        conditions.append(f"_t >= {life.start}")
    if relation.predicate is not None:
        conditions.append(predicate_sql(relation.predicate, _PLAIN))
    return f'(SELECT * FROM "{relation.stream}" WHERE {" AND ".join(conditions)}) AS r{side}'


def _keys(query: QuerySpec) -> list[str]:
    return [f"{scalar_sql(key.left, _DIALECT)} = {scalar_sql(key.right, _DIALECT)}" for key in query.keys]


def _times(query: QuerySpec) -> list[str]:
    """What the windows and interval conditions say about the times of several tuples."""
    if len(query.relations) == 1:
        return []
    conditions = []
    latest = f"greatest({', '.join(f'r{side}._t' for side in range(len(query.relations)))})"
    for side, relation in enumerate(query.relations):
        match relation.window:
            case Range(size=size):
                conditions.append(f"r{side}._t > {latest} - {size}")
            case Sliding() | Unbounded() | Session() | None:
                pass
            case _:
                assert_never(relation.window)
    if query.interval is not None and query.interval.low is not None:
        conditions.append(f"r0._t - r1._t >= {query.interval.low}")
    if query.interval is not None and query.interval.high is not None:
        conditions.append(f"r0._t - r1._t <= {query.interval.high}")
    return conditions


def _edges(query: QuerySpec) -> tuple[str, str]:
    """Begin and end of the window in microseconds."""
    if (window := query.sliding) is None:
        return "w._first", "w._end"
    return f"w._k * {window.slide}", f"(w._k * {window.slide} + {window.size})"


def _in_window(query: QuerySpec) -> list[str]:
    start, end = _edges(query)
    return [f"r{side}._t >= {start} AND r{side}._t < {end}" for side in range(len(query.relations))]


def _sessions(query: QuerySpec, life: Life, session: Session) -> str:
    """All sessions [_first, _end) with their keys k0, k1, …: those of the groups, or of the join with all sides."""
    sides = []
    for side in range(len(query.relations)):
        keys = [f"{text} AS k{number}" for number, text in enumerate(_session_keys(query, side))]
        sides.append(f"SELECT {', '.join([f'r{side}._t', *keys])} FROM {_relation(query, side, life)}")
    tuples = " UNION ALL ".join(sides)
    names = ", ".join(f"k{number}" for number in range(len(_session_keys(query, 0))))
    order = f"({f'PARTITION BY {names} ' if names else ''}ORDER BY _t)"
    # The default frame of sum takes rows of the same time together, whichever of them lag saw first.
    apart, end = f"_t - lag(_t) OVER {order} >= {session.gap}", f"max(_t) + {session.gap}"
    if (longest := session.longest) is not None:
        apart += f" OR {_stretch('_t', longest)} <> lag({_stretch('_t', longest)}) OVER {order}"
        end = f"least({end}, {_stretch('min(_t)', longest)} + {longest})"
    flagged = f"SELECT *, coalesce({apart}, TRUE) AS _new FROM ({tuples})"
    numbered = f"SELECT *, sum(_new::INT) OVER {order} AS _session FROM ({flagged})"
    columns = f"{f'{names}, ' if names else ''}_session, min(_t) AS _first, {end} AS _end"
    return f"SELECT {columns} FROM ({numbered}) GROUP BY {f'{names}, ' if names else ''}_session"


def _stretch(time: str, length: int) -> str:
    """The multiple of a length at or before a time."""
    return f"({time} - ({time} % {length} + {length}) % {length})"


def _session_keys(query: QuerySpec, side: int) -> list[str]:
    """What sessions are formed per, over one side."""
    if query.conditions:
        return [_group_key(column, _DIALECT) for column in query.session_columns(side)]
    if len(query.relations) == 2:
        return [_group_key(key.right if side else key.left, _DIALECT) for key in query.keys]
    assert query.grouping is not None
    return [_group_key(key, _DIALECT) for key in query.grouping.keys]


def _same_session_key(query: QuerySpec) -> list[str]:
    """NULL is a group, but no join key."""
    equals = "=" if len(query.relations) > 1 else _DIALECT.null_safe
    return [
        f"{text} {equals} w.k{number}"
        for side in range(len(query.relations))
        for number, text in enumerate(_session_keys(query, side))
    ]


def _output(query: QuerySpec, output: OutputColumn) -> str:
    assert isinstance(output, Col | WindowEdge)
    if isinstance(output, Col):
        return _column(output)
    return _edges(query)[output.name == "window_end"]


def _grouped_output(query: QuerySpec, position: int) -> str:
    output = query.outputs[position]
    match output:
        case GroupKey(number=number):
            return f"g{number}"
        case WindowEdge(name=name):
            return name
        case Call():
            return _call(output, sum(isinstance(other, Call) for other in query.outputs[:position]))
        case Col():
            raise ValueError(f"not an output of an aggregation: {output}")
        case _:
            assert_never(output)


def _calls(query: QuerySpec) -> list[Call]:
    return [output for output in query.outputs if isinstance(output, Call)]


def _argument(call: Call) -> str:
    match call.of:
        case None:
            return "NULL"
        case Product(left=left, right=right):
            return f"{_column(left)} * {_column(right)}"
        case _:
            return _group_key(call.of, _DIALECT) if "distinct" in call.function else scalar_sql(call.of, _DIALECT)


def _call(call: Call, number: int) -> str:
    """An aggregate over the column of its argument."""
    x = f"x{number}"
    match call.function:
        case "count" if call.of is None:
            return "count(*)"
        case "count" | "sum" | "min" | "max":
            return f"{call.function}({x})"
        case "distinct" | "approx_distinct":
            return f"count(DISTINCT {x})"
        case "avg":
            return f"sum({x})::DOUBLE / nullif(count({x}), 0)"
        case "stddev":
            # DuckDB's own stops at an infinity; by the formula the result is NaN.
            number_ = f"{x}::DOUBLE"
            odd = f"count({x}) FILTER (WHERE NOT isfinite({number_})) > 0 AND count({x}) > 1"
            return (
                f"CASE WHEN {odd} THEN 'NaN'::DOUBLE ELSE stddev_samp({number_}) FILTER (WHERE isfinite({number_})) END"
            )
        case _:
            raise ValueError(f"not a function: {call.function}")


def _group_key(scalar: Scalar, dialect: Dialect) -> str:
    """The value as a key: both zeros are one."""
    text = scalar_sql(scalar, dialect)
    return f"CASE WHEN {text} = 0 THEN 0::DOUBLE ELSE {text} END" if type_of(scalar).kind is Kind.DOUBLE else text


def _column(column: Col) -> str:
    return f'r{column.relation}."{column.name}"'


def _plain_column(column: Col) -> str:
    return f'"{column.name}"'


def _shifted(column: str, micros: int) -> str:
    return f"({column} + to_microseconds({micros}))"


def duckdb_literal(literal: Lit) -> str:
    """A constant in DuckDB's syntax."""
    value = literal.value
    if value is None:
        return "NULL"
    match literal.type.kind:
        case Kind.STRING:
            return "'" + str(value).replace("'", "''") + "'"
        case Kind.DOUBLE:
            return double_text(value, f"CAST({value} AS DOUBLE)")
        case Kind.DATE:
            return f"DATE '{value}'"
        case Kind.TIMESTAMP:
            return f"TIMESTAMPTZ '{value}'"
        case _:
            return str(value)


_NULL_SAFE = "IS NOT DISTINCT FROM"
_DIALECT = Dialect(_column, duckdb_literal, _NULL_SAFE, _shifted)
_PLAIN = Dialect(_plain_column, duckdb_literal, _NULL_SAFE, _shifted)
