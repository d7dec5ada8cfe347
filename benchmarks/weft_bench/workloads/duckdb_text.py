"""A shape in DuckDB's words, over tables named as the streams that hold all rows there will be.

Aggregates are of windows that have ended by the newest row of every stream, as systems report them that wait for more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from weft_bench.workloads.shapes import (
    TIME,
    Grouped,
    NearJoin,
    Relation,
    Selection,
    Session,
    Shape,
    Sliding,
    WindowJoin,
    aliases,
    all_of,
    columns_of,
    expressions,
    flat,
    joining,
)
from weft_bench.workloads.weft_text import selection_text

_MICROS = 1_000_000
_HOUR = re.compile(r"HOUR\((\w+\.\w+)\)")


def duckdb_text(shape: Shape) -> str:
    """The query as DuckDB takes it."""
    match shape:
        case Selection():
            # The hour of a moment with a time zone would need an extension that may not be there.
            return _HOUR.sub(r"hour(make_timestamp(epoch_us(\1)))", selection_text(shape))
        case NearJoin():
            outputs = (*_times(shape.relations), *(each.sql() for each in shape.outputs))
            return f"SELECT {', '.join(outputs)}{_source(shape)}"
        case WindowJoin():
            return _window_join(shape)
        case Grouped():
            return (
                _sliding(shape, shape.window) if isinstance(shape.window, Sliding) else _sessions(shape, shape.window)
            )
        case _:
            assert_never(shape)


def _times(relations: Sequence[Relation]) -> list[str]:
    return [f"{each.alias}.{TIME} AS {each.alias}_{TIME}" for each in relations]


def _micros(relation: Relation) -> str:
    return f"epoch_us({relation.alias}.{TIME})"


def _source(shape: NearJoin | WindowJoin | Grouped) -> str:
    """FROM, JOIN … ON and WHERE; rows that a window can hold together are less than its length apart."""
    relations = shape.relations
    text = f" FROM {relations[0].stream} AS {relations[0].alias}"
    for at, each in enumerate(relations[1:], start=1):
        near = [_near(before, each, shape) for before in relations[:at]]
        conditions = [*joining(shape.conditions, relations, at), *near]
        text += f" JOIN {each.stream} AS {each.alias}{all_of(conditions, ' ON ')}"
    return text + all_of(each for each in shape.conditions if len(aliases(each)) == 1)


def _near(left: Relation, right: Relation, shape: NearJoin | WindowJoin | Grouped) -> str:
    seconds = shape.seconds if isinstance(shape, NearJoin) else _sliding_of(shape).seconds
    reach = seconds * _MICROS
    if isinstance(shape, NearJoin) and shape.after:
        return f"{_micros(right)} - {_micros(left)} BETWEEN 0 AND {reach - 1}"
    return f"abs({_micros(right)} - {_micros(left)}) < {reach}"


def _sliding_of(shape: WindowJoin | Grouped) -> Sliding:
    assert isinstance(shape.window, Sliding)
    return shape.window


def _opened(relations: Sequence[Relation], window: Sliding) -> str:
    """The beginnings of the windows that hold rows of all relations, one row for each."""
    times = [_micros(each) for each in relations]
    first, last = (f"least({', '.join(times)})", f"greatest({', '.join(times)})") if len(times) > 1 else times * 2
    length, slide = window.seconds * _MICROS, window.slide * _MICROS
    if length == slide and len(times) == 1:
        return f"{first} // {slide} * {slide}"
    return f"unnest(range((({last} - {length}) // {slide} + 1) * {slide}, {first} // {slide} * {slide} + 1, {slide}))"


def _columns(shape: WindowJoin | Grouped) -> list[str]:
    """All columns that a query reads, named alias_column."""
    return [
        f"{each.alias}.{name} AS {each.alias}_{name}"
        for each in shape.relations
        for name in (TIME, *columns_of(each.alias, expressions(shape)))
    ]


def _window_join(shape: WindowJoin) -> str:
    times = [f"{each.alias}_{TIME}" for each in shape.relations]
    outputs = [f"{flat(each.expression, shape.relations)} AS {each.name}" for each in shape.outputs]
    inner = [*_columns(shape), f"{_opened(shape.relations, shape.window)} AS opened"]
    selected = ", ".join([*times, "make_timestamp(opened) AS window_start", *outputs])
    return f"SELECT {selected} FROM (SELECT {', '.join(inner)}{_source(shape)})"


def _sliding(shape: Grouped, window: Sliding) -> str:
    inner = [*_columns(shape), f"{_opened(shape.relations, window)} AS opened"]
    keys = [flat(each.expression, shape.relations) for each in shape.keys]
    ended = f"opened + {window.seconds * _MICROS} <= {_newest_row(shape.relations)}"
    return (
        f"SELECT {_outputs(shape, 'make_timestamp(opened)')} FROM (SELECT {', '.join(inner)}{_source(shape)}) "
        f"WHERE {ended} GROUP BY {', '.join([*keys, 'opened'])}{_having(shape)}"
    )


def _sessions(shape: Grouped, session: Session) -> str:
    time = f"epoch_us({shape.relations[0].alias}_{TIME})"
    keys = ", ".join(flat(each.expression, shape.relations) for each in shape.keys)
    by_key = f"OVER (PARTITION BY {keys} ORDER BY {time})" if keys else f"OVER (ORDER BY {time})"
    gap = session.gap * _MICROS
    rows = f"SELECT {', '.join(_columns(shape))}{_source(shape)}"
    marked = f"SELECT *, CAST(coalesce({time} - lag({time}) {by_key} >= {gap}, true) AS INTEGER) AS fresh FROM ({rows})"
    counted = f"SELECT *, sum(fresh) {by_key} AS number FROM ({marked})"
    ended = f"max({time}) + {gap} <= {_newest_row(shape.relations)}"
    having = f" AND {flat(shape.having, shape.relations)}" if shape.having else ""
    grouped = f"{keys}, number" if keys else "number"
    return (
        f"SELECT {_outputs(shape, f'make_timestamp(min({time}))')} FROM ({counted}) "
        f"GROUP BY {grouped} HAVING {ended}{having}"
    )


def _outputs(shape: Grouped, begin: str) -> str:
    keys = [f"{flat(each.expression, shape.relations)} AS {each.name}" for each in shape.keys]
    aggregates = [flat(each.sql(), shape.relations) for each in (*shape.aggregates, *shape.newest())]
    return ", ".join([*keys, f"{begin} AS window_start", *aggregates])


def _newest_row(relations: Sequence[Relation]) -> str:
    """The event time that all streams have reached, in microseconds."""
    streams = dict.fromkeys(each.stream for each in relations)
    found = [f"(SELECT max(epoch_us({TIME})) FROM {stream})" for stream in streams]
    return f"least({', '.join(found)})" if len(found) > 1 else found[0]


def _having(shape: Grouped) -> str:
    return f" HAVING {flat(shape.having, shape.relations)}" if shape.having else ""
