"""A shape in the words of Spark's Structured Streaming, over streaming views named as the streams, with watermarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from weft_bench.workloads.chained import chained
from weft_bench.workloads.shapes import (
    TIME,
    Aggregate,
    CannotSay,
    Function,
    Grouped,
    NearJoin,
    Relation,
    Selection,
    Session,
    Shape,
    Sliding,
    Window,
    WindowJoin,
    all_of,
    columns_of,
    expressions,
    flat,
    joining,
    local,
)
from weft_bench.workloads.weft_text import selection_text

NO_DISTINCT = "Structured Streaming has no COUNT(DISTINCT)"
_MICROS = 1_000_000
_NUMBER = "us"
"""A relation's event time as a number, beside its window, which is the one event time it may have."""


def spark_text(shape: Shape) -> str:
    """The query as Structured Streaming takes it; raises CannotSay."""
    match shape:
        case Selection():
            return selection_text(shape)
        case NearJoin():
            return _near(shape) if len(shape.relations) == 2 else chained(shape, _Words())
        case WindowJoin():
            times = [f"timestamp_micros({each.alias}.{_NUMBER}) AS {each.alias}_{TIME}" for each in shape.relations]
            begin = f"{shape.relations[0].alias}.w.start AS window_start"
            outputs = [*times, begin, *(each.sql() for each in shape.outputs)]
            return f"SELECT {', '.join(outputs)}{_joined(shape, shape.window)}"
        case Grouped():
            return _grouped(shape)
        case _:
            assert_never(shape)


@dataclass(frozen=True, slots=True)
class _Words:
    """Numbers for frozen times: a stream that is joined again may have one event time only."""

    def frozen(self, time: str) -> str:
        return f"unix_micros({time})"

    def thawed(self, value: str) -> str:
        return f"timestamp_micros({value})"

    def near(self, time: str, other: str, seconds: int) -> list[str]:
        reach = f"INTERVAL {seconds} SECONDS"
        return [f"{time} > {other} - {reach}", f"{time} < {other} + {reach}"]

    def near_frozen(self, time: str, value: str, seconds: int) -> list[str]:
        return [f"abs(unix_micros({time}) - {value}) < {seconds * _MICROS}"]


def _near(shape: NearJoin) -> str:
    left, right = shape.relations
    times = f"{left.alias}.{TIME} AS {left.alias}_{TIME}, {right.alias}.{TIME} AS {right.alias}_{TIME}"
    outputs = ", ".join((times, *(each.sql() for each in shape.outputs)))
    lower, upper = _Words().near(f"{right.alias}.{TIME}", f"{left.alias}.{TIME}", shape.seconds)
    if shape.after:
        lower = f"{right.alias}.{TIME} >= {left.alias}.{TIME}"
    alone = [*local(shape.conditions, left.alias), *local(shape.conditions, right.alias)]
    return (
        f"SELECT {outputs} FROM {left.stream} AS {left.alias} JOIN {right.stream} AS {right.alias}"
        f"{all_of([*joining(shape.conditions, shape.relations, 1), lower, upper], ' ON ')}{all_of(alone)}"
    )


def _joined(shape: WindowJoin, window: Sliding) -> str:
    """FROM and JOIN of relations that have a window w each, which is equal."""
    first, *others = shape.relations
    text = f" FROM {_windowed(first, shape, window)}"
    for at, each in enumerate(others, start=1):
        conditions = [f"{each.alias}.w = {first.alias}.w", *joining(shape.conditions, shape.relations, at)]
        text += f" JOIN {_windowed(each, shape, window)}{all_of(conditions, ' ON ')}"
    return text


def _windowed(relation: Relation, shape: WindowJoin | Grouped, window: Sliding) -> str:
    alias = relation.alias
    columns = [f"{alias}.{name}" for name in columns_of(alias, expressions(shape))]
    times = [f"unix_micros({alias}.{TIME}) AS {_NUMBER}", f"{_window(window, f'{alias}.{TIME}')} AS w"]
    source = f"FROM {relation.stream} AS {alias}{all_of(local(shape.conditions, alias))}"
    return f"(SELECT {', '.join([*columns, *times])} {source}) AS {alias}"


def _window(window: Window, time: str) -> str:
    match window:
        case Sliding(seconds=seconds, slide=slide) if seconds == slide:
            return f"window({time}, '{seconds} seconds')"
        case Sliding(seconds=seconds, slide=slide):
            return f"window({time}, '{seconds} seconds', '{slide} seconds')"
        case Session(gap=gap):
            return f"session_window({time}, '{gap} seconds')"
        case _:
            assert_never(window)


def _grouped(shape: Grouped) -> str:
    if any(each.function is Function.DISTINCT for each in shape.aggregates):
        raise CannotSay(NO_DISTINCT)
    if len(shape.relations) > 1:
        assert isinstance(shape.window, Sliding)
        return _grouped_join(shape, shape.window)
    relation = shape.relations[0]
    begin = "session_window" if isinstance(shape.window, Session) else "window"
    keys = [each.expression for each in shape.keys]
    outputs = [*(each.sql() for each in shape.keys), f"{begin}.start AS window_start"]
    aggregates = [each.sql() for each in (*shape.aggregates, *shape.newest())]
    grouped = ", ".join([*keys, _window(shape.window, f"{relation.alias}.{TIME}")])
    return (
        f"SELECT {', '.join([*outputs, *aggregates])} FROM {relation.stream} AS {relation.alias}"
        f"{all_of(shape.conditions)} GROUP BY {grouped}{_having(shape.having)}"
    )


def _grouped_join(shape: Grouped, window: Sliding) -> str:
    """Aggregates over joins in subqueries, of which only one window is left: Spark wants one event time."""
    relations = shape.relations
    keys = [flat(each.expression, relations) for each in shape.keys]
    outputs = [f"{key} AS {each.name}" for key, each in zip(keys, shape.keys, strict=True)]
    aggregates = [flat(_of_join(each), relations) for each in (*shape.aggregates, *shape.newest())]
    return (
        f"SELECT {', '.join([*outputs, 'w.start AS window_start', *aggregates])} "
        f"FROM ({_folded(shape, window, len(relations) - 1)}) "
        f"GROUP BY {', '.join([*keys, 'w'])}{_having(flat(shape.having, relations))}"
    )


def _folded(shape: Grouped, window: Sliding, at: int) -> str:
    """The relations up to one, joined: columns named alias_column, and the window w."""
    new, known = shape.relations[at], shape.relations[:at]
    source = _windowed(new, shape, window)
    columns = [_plain(new.alias, name) for name in _needed(shape, new)]
    if not known:
        return f"SELECT {', '.join([f'{new.alias}.w AS w', *columns])} FROM {source}"
    old = [f"j.{each.alias}_{name} AS {each.alias}_{name}" for each in known for name in _needed(shape, each)]
    conditions = [flat(each, known, "j.") for each in joining(shape.conditions, shape.relations, at)]
    on = all_of([f"{new.alias}.w = j.w", *conditions], " ON ")
    selected = ", ".join(["j.w AS w", *old, *columns])
    return f"SELECT {selected} FROM ({_folded(shape, window, at - 1)}) AS j JOIN {source}{on}"


def _needed(shape: Grouped, relation: Relation) -> Sequence[str]:
    names = columns_of(relation.alias, expressions(shape))
    return [TIME, *names] if shape.observed else names


def _plain(alias: str, name: str) -> str:
    return f"{alias}.{_NUMBER if name == TIME else name} AS {alias}_{name}"


def _of_join(aggregate: Aggregate) -> str:
    if aggregate.argument.endswith(f".{TIME}"):
        return f"timestamp_micros(MAX({aggregate.argument})) AS {aggregate.name}"
    return aggregate.sql()


def _having(condition: str) -> str:
    return f" HAVING {condition}" if condition else ""
