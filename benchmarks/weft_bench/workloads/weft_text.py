"""A shape in weft's words: windows in brackets behind the relations."""

from __future__ import annotations

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
    Window,
    WindowJoin,
    aliases,
    all_of,
    joining,
)


def weft_text(shape: Shape) -> str:
    """The query as weft takes it."""
    match shape:
        case Selection():
            return selection_text(shape)
        case NearJoin():
            conditions = [*shape.conditions, *_order(shape)]
            source = _source(shape.relations, conditions, f"RANGE {shape.seconds} SECONDS")
            return f"SELECT {', '.join((*_times(shape.relations), *(each.sql() for each in shape.outputs)))}{source}"
        case WindowJoin():
            outputs = (*_times(shape.relations), "window_start", *(each.sql() for each in shape.outputs))
            return f"SELECT {', '.join(outputs)}{_source(shape.relations, shape.conditions, _window(shape.window))}"
        case Grouped():
            return _grouped(shape)
        case _:
            assert_never(shape)


def selection_text(shape: Selection) -> str:
    """A selection, which all dialects say alike."""
    alias = shape.relation.alias
    outputs = (f"{alias}.{TIME} AS {TIME}", *(each.sql() for each in shape.outputs))
    return f"SELECT {', '.join(outputs)} FROM {shape.relation.stream} AS {alias}{all_of(shape.conditions)}"


def _grouped(shape: Grouped) -> str:
    aggregates = (each.sql() for each in (*shape.aggregates, *shape.newest()))
    outputs = (*(each.sql() for each in shape.keys), "window_start", *aggregates)
    source = _source(shape.relations, shape.conditions, _window(shape.window))
    keys = ", ".join(each.expression for each in shape.keys)
    grouped = f" GROUP BY {keys}" if keys else ""
    having = f" HAVING {shape.having}" if shape.having else ""
    return f"SELECT {', '.join(outputs)}{source}{grouped}{having}"


def _times(relations: Sequence[Relation]) -> tuple[str, ...]:
    return tuple(f"{each.alias}.{TIME} AS {each.alias}_{TIME}" for each in relations)


def _order(shape: NearJoin) -> tuple[str, ...]:
    first, *others = shape.relations
    return tuple(f"{each.alias}.{TIME} >= {first.alias}.{TIME}" for each in others) if shape.after else ()


def _source(relations: Sequence[Relation], conditions: Sequence[str], window: str) -> str:
    """FROM, JOIN … ON and WHERE."""
    text = f" FROM {relations[0].stream} [{window}] AS {relations[0].alias}"
    for at, each in enumerate(relations[1:], start=1):
        text += f" JOIN {each.stream} [{window}] AS {each.alias}{all_of(joining(conditions, relations, at), ' ON ')}"
    return text + all_of(each for each in conditions if len(aliases(each)) == 1)


def _window(window: Window) -> str:
    match window:
        case Sliding(seconds=seconds, slide=slide) if seconds == slide:
            return f"TUMBLE {seconds} SECONDS"
        case Sliding(seconds=seconds, slide=slide):
            return f"RANGE {seconds} SECONDS SLIDE {slide} SECONDS"
        case Session(gap=gap):
            return f"SESSION {gap} SECONDS"
        case _:
            assert_never(window)
