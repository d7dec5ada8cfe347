"""Queries as an engineer would share them by hand on plain Structured Streaming: one streaming query for all of them,
and a text for each over its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weft_bench.systems.shared_pass import JoinPass, shared_pass
from weft_bench.workloads.shapes import (
    TIME,
    CannotSay,
    NearJoin,
    Relation,
    Selection,
    Shape,
    all_of,
    columns_of,
    expressions,
    flat,
)
from weft_bench.workloads.weft_text import selection_text

VIEW = "shared"


@dataclass(frozen=True, slots=True)
class SharedByHand:
    """The setting `shared_text` of the system and the text of each query, over a view named `shared`."""

    text: str
    queries: tuple[str, ...]


def share_by_hand(shapes: Sequence[Shape]) -> SharedByHand:
    """Joins: the one with the widest window and all rows that any query wants. Selections: all such rows.

    Raises CannotSay for what would need a streaming query for each window, or is of different streams.
    """
    joins = [shape for shape in shapes if isinstance(shape, NearJoin)]
    selections = [shape for shape in shapes if isinstance(shape, Selection)]
    if joins and len(joins) == len(shapes):
        return _joins(joins)
    if selections and len(selections) == len(shapes):
        return _selections(selections)
    raise CannotSay("cannot be shared by hand: only joins of the same streams and selections can")


def _joins(joins: Sequence[NearJoin]) -> SharedByHand:
    try:
        asked = shared_pass(joins)
    except CannotSay as reason:
        raise CannotSay(f"cannot be shared by hand: {reason}") from None
    assert isinstance(asked, JoinPass)
    left, right = asked.relations
    texts = [text for join in joins for text in (*expressions(join), *join.conditions)]
    columns = [
        f"{each.alias}.{name} AS {each.alias}_{name}"
        for each in asked.relations
        for name in (TIME, *columns_of(each.alias, texts))
    ]
    keys = [f"{left.alias}.{mine} = {right.alias}.{other}" for mine, other in asked.keys]
    near = _near(f"{left.alias}.{TIME}", f"{right.alias}.{TIME}", asked.widest)
    wanted = [_any(each[side] for each in asked.conditions) for side in range(2)]
    text = (
        f"SELECT {', '.join(columns)} FROM {left.stream} AS {left.alias} JOIN {right.stream} AS {right.alias} "
        f"ON {' AND '.join([*keys, near])} WHERE {' AND '.join(wanted)}"
    )
    return SharedByHand(text, tuple(_join(join) for join in joins))


def _join(join: NearJoin) -> str:
    times = [f"{each.alias}_{TIME}" for each in join.relations]
    outputs = [f"{flat(each.expression, join.relations)} AS {each.name}" for each in join.outputs]
    conditions = [flat(each, join.relations) for each in join.conditions]
    near = _near(times[0], times[1], join.seconds)
    return f"SELECT {', '.join([*times, *outputs])} FROM {VIEW}{all_of([*conditions, near])}"


def _near(time: str, other: str, seconds: int) -> str:
    reach = f"INTERVAL {seconds} SECONDS"
    return f"{other} > {time} - {reach} AND {other} < {time} + {reach}"


def _any(conditions: Iterable[str]) -> str:
    different = dict.fromkeys(conditions)
    return "TRUE" if "TRUE" in different else f"({' OR '.join(different)})"


def _selections(selections: Sequence[Selection]) -> SharedByHand:
    relation = selections[0].relation
    if any(each.relation != relation for each in selections):
        raise CannotSay("cannot be shared by hand: the selections are of different streams")
    wanted = _any(" AND ".join(f"({text})" for text in each.conditions) or "TRUE" for each in selections)
    return SharedByHand(
        f"SELECT * FROM {relation.stream} AS {relation.alias} WHERE {wanted}",
        tuple(selection_text(replace(each, relation=Relation(VIEW, relation.alias))) for each in selections),
    )
