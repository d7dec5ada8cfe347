"""One pass of Polars over the rows for all queries."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from weft_bench.systems.limit_files import Chunk
from weft_bench.systems.shared_pass import MICROS, AggregatePass, JoinPass, SlicedAggregate
from weft_bench.workloads.shapes import TIME, Aggregate, CannotSay, Function, Relation, flat


def polars() -> Any:
    """Polars, which only this limit needs; raises CannotSay where it is not installed."""
    try:
        return importlib.import_module("polars")
    except ImportError:
        raise CannotSay('polars is not installed: pip install "polars>=2.1,<3"') from None


def count_joins(asked: JoinPass, chunks: Iterable[Chunk]) -> list[int]:
    """Result rows of each query."""
    pl, totals = polars(), [0] * len(asked.reaches)
    for chunk in chunks:
        left, right = _side(asked, 0, chunk.left), _side(asked, 1, chunk.right)
        (mine, other), (first, second) = zip(*asked.keys, strict=True), (each.alias for each in asked.relations)
        pairs = left.join(
            right,
            left_on=[f"{first}_{key}" for key in mine],
            right_on=[f"{second}_{key}" for key in other],
            coalesce=False,
        )
        apart = (pl.col(f"{first}_t") - pl.col(f"{second}_t")).abs()
        pairs = pairs.with_columns(apart=apart).filter(pl.col("apart") < asked.widest * MICROS)
        counts = [_wanted(asked, number).sum().alias(f"q{number}") for number in range(len(totals))]
        found = pairs.select(counts).collect(engine="streaming").row(0)
        totals = [total + int(more) for total, more in zip(totals, found, strict=True)]
    return totals


def _side(asked: JoinPass, side: int, paths: Sequence[str]) -> Any:
    """Rows that some query wants, columns named alias_column."""
    pl, relation = polars(), asked.relations[side]
    columns = [pl.col(name).alias(f"{relation.alias}_{name}") for name in asked.columns(side)]
    micros = pl.col(TIME).dt.timestamp("us").alias(f"{relation.alias}_t")
    wanted = [_condition(text, relation) for text in dict.fromkeys(each[side] for each in asked.conditions)]
    return pl.scan_parquet(list(paths)).select(*columns, micros).filter(pl.any_horizontal(wanted))


def _condition(text: str, relation: Relation) -> Any:
    pl = polars()
    return pl.lit(True) if text == "TRUE" else pl.sql_expr(flat(text, [relation]))


def _wanted(asked: JoinPass, number: int) -> Any:
    left, right = (
        _condition(text, relation) for text, relation in zip(asked.conditions[number], asked.relations, strict=True)
    )
    return left & right & (polars().col("apart") < asked.reaches[number] * MICROS)


def count_groups(asked: AggregatePass, paths: Sequence[str]) -> list[int]:
    """Groups of each query in windows that have ended by the newest row; all aggregates are computed."""
    pl, alias = polars(), asked.relation.alias
    rows = pl.scan_parquet(list(paths)).rename(lambda name: f"{alias}_{name}")
    micros = pl.col(f"{alias}_{TIME}").dt.timestamp("us")
    rows = rows.with_columns(newest=micros, slice=micros // (asked.slice_seconds * MICROS))
    keys = [f"{alias}_{key}" for key in asked.keys]
    parts = [part for number, query in enumerate(asked.queries) for part in _parts(asked, number, query)]
    slices = rows.group_by(*keys, "slice").agg(pl.col("newest").max(), *parts).collect(engine="streaming")
    ended = int(slices["newest"].max()) // (asked.slice_seconds * MICROS)
    return [_windows(asked, slices, number, ended) for number in range(len(asked.queries))]


def _parts(asked: AggregatePass, number: int, query: SlicedAggregate) -> list[Any]:
    pl = polars()
    wanted = _condition(query.condition, asked.relation)
    found = [wanted.sum().cast(pl.Int64).alias(f"n{number}")]
    for at, each in enumerate(query.aggregates):
        if each.argument != "*":
            value = pl.sql_expr(flat(each.argument, [asked.relation])).filter(wanted)
            found.append(_partial(value, each).alias(f"q{number}_{at}"))
    return found


def _partial(value: Any, each: Aggregate) -> Any:
    match each.function:
        case Function.SUM | Function.AVG:
            return value.cast(polars().Int64).sum()
        case Function.COUNT:
            return value.count().cast(polars().Int64)
        case Function.MIN:
            return value.min()
        case Function.MAX:
            return value.max()
        case Function.DISTINCT:
            raise ValueError("different values cannot be added up")


def _windows(asked: AggregatePass, slices: Any, number: int, ended: int) -> int:
    pl, query = polars(), asked.queries[number]
    length, slide = (seconds // asked.slice_seconds for seconds in (query.window.seconds, query.window.slide))
    keys = [f"{asked.relation.alias}_{key}" for key in asked.keys]
    opened = pl.int_ranges((pl.col("slice") - length) // slide + 1, pl.col("slice") // slide + 1).alias("opened")
    added = [pl.col(f"n{number}").sum()]
    for at, each in enumerate(query.aggregates):
        if each.argument != "*":
            value = pl.col(f"q{number}_{at}")
            added.append({Function.MIN: value.min, Function.MAX: value.max}.get(each.function, value.sum)())
    names = [*keys, f"n{number}", *(name for name in slices.columns if name.startswith(f"q{number}_"))]
    found = (
        slices.lazy()
        .filter(pl.col(f"n{number}") > 0)
        .select(*names, opened)
        .explode("opened")
        .filter(pl.col("opened") * slide + length <= ended)
        .group_by(*keys, "opened")
        .agg(added)
        .collect(engine="streaming")
    )
    return int(found.height)
