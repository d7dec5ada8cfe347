"""A shape in Flink SQL, over tables named as the streams whose event time is ts.

Flink's event times have milliseconds, so rows whose distance is within one of a window's length may count otherwise
than elsewhere. Sums and averages of integers are integers there, hence the casts.
"""

from __future__ import annotations

import re
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
    joining,
    local,
)
from weft_bench.workloads.weft_text import selection_text

_SPLIT_PART = re.compile(r"SPLIT_PART\((.+?), ('.'), (\d+)\)")
_CASTS = {Function.SUM: "BIGINT", Function.AVG: "DOUBLE"}
_DIGITS = 2
"""Of an interval's number unless it says otherwise."""


def flink_text(shape: Shape) -> str:
    """The query as Flink takes it; raises CannotSay."""
    match shape:
        case Selection():
            # The same function by another name, which counts from zero.
            return _SPLIT_PART.sub(
                lambda found: f"SPLIT_INDEX({found[1]}, {found[2]}, {int(found[3]) - 1})", selection_text(shape)
            )
        case NearJoin():
            return _near(shape) if len(shape.relations) == 2 else chained(shape, _Words())
        case WindowJoin():
            outputs = [*_times(shape.relations), f"{shape.relations[0].alias}.window_start AS window_start"]
            selected = ", ".join([*outputs, *(each.sql() for each in shape.outputs)])
            return f"SELECT {selected}{_joined(shape, shape.window)}"
        case Grouped():
            return _grouped(shape)
        case _:
            assert_never(shape)


@dataclass(frozen=True, slots=True)
class _Words:
    """Casts for frozen times: a join knows one event time of each side."""

    def frozen(self, time: str) -> str:
        return f"CAST({time} AS TIMESTAMP_LTZ(3))"

    def thawed(self, value: str) -> str:
        return value

    def near(self, time: str, other: str, seconds: int) -> list[str]:
        reach = _interval(seconds)
        return [f"{time} > {other} - {reach}", f"{time} < {other} + {reach}"]

    def near_frozen(self, time: str, value: str, seconds: int) -> list[str]:
        return self.near(time, value, seconds)


def _interval(seconds: int) -> str:
    digits = len(str(seconds))
    return f"INTERVAL '{seconds}' SECOND" + (f"({digits})" if digits > _DIGITS else "")


def _times(relations: Sequence[Relation]) -> list[str]:
    """Event times as plain values: a result may have one event time only."""
    return [f"{_Words().frozen(f'{each.alias}.{TIME}')} AS {each.alias}_{TIME}" for each in relations]


def _near(shape: NearJoin) -> str:
    left, right = shape.relations
    outputs = ", ".join((*_times(shape.relations), *(each.sql() for each in shape.outputs)))
    lower, upper = _Words().near(f"{right.alias}.{TIME}", f"{left.alias}.{TIME}", shape.seconds)
    if shape.after:
        lower = f"{right.alias}.{TIME} >= {left.alias}.{TIME}"
    alone = [*local(shape.conditions, left.alias), *local(shape.conditions, right.alias)]
    return (
        f"SELECT {outputs} FROM {left.stream} AS {left.alias} JOIN {right.stream} AS {right.alias}"
        f"{all_of([*joining(shape.conditions, shape.relations, 1), lower, upper], ' ON ')}{all_of(alone)}"
    )


def _joined(shape: WindowJoin | Grouped, window: Window) -> str:
    """FROM and JOIN of relations with windows, which are equal."""
    first, *others = shape.relations
    text = f" FROM {_windowed(first, shape, window)}"
    for at, each in enumerate(others, start=1):
        equal = [f"{each.alias}.{edge} = {first.alias}.{edge}" for edge in ("window_start", "window_end")]
        conditions = [*joining(shape.conditions, shape.relations, at), *equal]
        text += f" JOIN {_windowed(each, shape, window)}{all_of(conditions, ' ON ')}"
    return text


def _windowed(relation: Relation, shape: WindowJoin | Grouped, window: Window) -> str:
    """A table function of windows over the rows and columns that are needed."""
    alias = relation.alias
    columns = ", ".join(f"{alias}.{name}" for name in (TIME, *columns_of(alias, expressions(shape))))
    rows = f"(SELECT {columns} FROM {relation.stream} AS {alias}{all_of(local(shape.conditions, alias))})"
    time = f"TIMECOL => DESCRIPTOR({TIME})"
    match window:
        case Sliding(seconds=seconds, slide=slide) if seconds == slide:
            called = f"TUMBLE(DATA => {rows}, {time}, SIZE => {_interval(seconds)})"
        case Sliding(seconds=seconds, slide=slide):
            called = f"HOP(DATA => {rows}, {time}, SLIDE => {_interval(slide)}, SIZE => {_interval(seconds)})"
        case Session(gap=gap):
            assert isinstance(shape, Grouped)
            keys = ", ".join(each.expression.split(".", 1)[1] for each in shape.keys)
            called = f"SESSION(DATA => {rows} PARTITION BY {keys}, {time}, GAP => {_interval(gap)})"
        case _:
            assert_never(window)
    return f"TABLE({called}) AS {alias}"


def _grouped(shape: Grouped) -> str:
    window = shape.window
    if isinstance(window, Sliding) and window.seconds % window.slide:
        return _uneven(shape, window)
    alias = shape.relations[0].alias
    keys = [*(each.expression for each in shape.keys), f"{alias}.window_start", f"{alias}.window_end"]
    outputs = [*(each.sql() for each in shape.keys), f"{alias}.window_start AS window_start", *_aggregates(shape)]
    joined = _joined(shape, window)
    return f"SELECT {', '.join(outputs)}{joined} GROUP BY {', '.join(keys)}{_having(shape.having)}"


def _uneven(shape: Grouped, window: Sliding) -> str:
    """The older form of windows: the newer one needs a length that is a multiple of the slide."""
    if len(shape.relations) > 1:
        raise CannotSay(
            f"Flink aggregates over window joins need a length that is a multiple of the slide, "
            f"not {window.seconds} s and {window.slide} s"
        )
    relation = shape.relations[0]
    sizes = f"{relation.alias}.{TIME}, {_interval(window.slide)}, {_interval(window.seconds)}"
    outputs = [*(each.sql() for each in shape.keys), f"HOP_START({sizes}) AS window_start", *_aggregates(shape)]
    keys = [*(each.expression for each in shape.keys), f"HOP({sizes})"]
    return (
        f"SELECT {', '.join(outputs)} FROM {relation.stream} AS {relation.alias}{all_of(shape.conditions)} "
        f"GROUP BY {', '.join(keys)}{_having(shape.having)}"
    )


def _aggregates(shape: Grouped) -> list[str]:
    return [_aggregate(each) for each in (*shape.aggregates, *shape.newest())]


def _aggregate(each: Aggregate) -> str:
    return each.sql(cast=_CASTS.get(each.function, ""))


def _having(condition: str) -> str:
    return f" HAVING {condition}" if condition else ""
