"""One pass of DuckDB over the rows for all queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb

from weft_bench.systems.limit_files import Chunk
from weft_bench.systems.shared_pass import MICROS, AggregatePass, JoinPass, SlicedAggregate
from weft_bench.workloads.shapes import TIME, Aggregate, Function

_BITS = 62
"""Queries in an integer."""


def count_joins(asked: JoinPass, chunks: Iterable[Chunk]) -> list[int]:
    """Result rows of each query.

    Conditions on one side are looked at before the join and become bits of integers: much less is left to do for
    each pair of rows.
    """
    totals = [0] * len(asked.reaches)
    with duckdb.connect() as connection:
        for chunk in chunks:
            found = connection.execute(_join_sql(asked, chunk)).fetchone()
            assert found is not None
            totals = [total + int(more) for total, more in zip(totals, found, strict=True)]
    return totals


def _words(asked: JoinPass) -> list[range]:
    """The numbers of the queries in each integer."""
    number = len(asked.reaches)
    return [range(first, min(first + _BITS, number)) for first in range(0, number, _BITS)]


def _join_sql(asked: JoinPass, chunk: Chunk) -> str:
    left, right = (each.alias for each in asked.relations)
    words = _words(asked)
    apart = f"abs({left}.t - {right}.t)"
    masks = [f"{left}.m{n} & {right}.m{n} & {_in_reach(asked, word, apart)} AS m{n}" for n, word in enumerate(words)]
    keys = [f"{left}.{mine} = {right}.{other}" for mine, other in asked.keys]
    on = " AND ".join([*keys, f"{apart} < {asked.widest * MICROS}"])
    pairs = (
        f"SELECT {', '.join(masks)} FROM ({_side_sql(asked, 0, chunk.left)}) AS {left} "
        f"JOIN ({_side_sql(asked, 1, chunk.right)}) AS {right} ON {on}"
    )
    counts = [f"count_if(m{n} & {1 << bit} <> 0)" for n, word in enumerate(words) for bit in range(len(word))]
    return f"SELECT {', '.join(counts)} FROM ({pairs})"


def _side_sql(asked: JoinPass, side: int, paths: Sequence[str]) -> str:
    """Rows that some query wants: keys, event time, and the queries whose conditions they meet."""
    alias = asked.relations[side].alias
    words = [
        " + ".join(
            f"CASE WHEN {asked.conditions[query][side]} THEN {1 << bit} ELSE 0 END" for bit, query in enumerate(word)
        )
        for word in _words(asked)
    ]
    columns = [f"{alias}.{pair[side]}" for pair in asked.keys]
    columns += [f"epoch_us({alias}.{TIME}) AS t", *(f"CAST({text} AS BIGINT) AS m{n}" for n, text in enumerate(words))]
    wanted = " OR ".join(f"m{n} <> 0" for n in range(len(words)))
    return f"SELECT * FROM (SELECT {', '.join(columns)} FROM read_parquet({list(paths)}) AS {alias}) WHERE {wanted}"


def _in_reach(asked: JoinPass, word: range, apart: str) -> str:
    """The bits of the queries whose reach is longer than two rows are apart."""
    cases = [
        f"WHEN {apart} < {reach * MICROS} THEN "
        f"{sum(1 << bit for bit, query in enumerate(word) if asked.reaches[query] >= reach)}"
        for reach in sorted(set(asked.reaches))
    ]
    return f"CASE {' '.join(cases)} ELSE 0 END"


def count_groups(asked: AggregatePass, paths: Sequence[str]) -> list[int]:
    """Groups of each query in windows that have ended by the newest row; all aggregates are computed."""
    with duckdb.connect() as connection:
        connection.execute(_slices_sql(asked, paths))
        found = [connection.execute(_windows_sql(asked, n, query)).fetchone() for n, query in enumerate(asked.queries)]
    return [0 if each is None else int(each[0]) for each in found]


def _slices_sql(asked: AggregatePass, paths: Sequence[str]) -> str:
    alias = asked.relation.alias
    slice_ = f"epoch_us({alias}.{TIME}) // {asked.slice_seconds * MICROS}"
    columns = [f"{alias}.{key}" for key in asked.keys]
    parts = [f"max(epoch_us({alias}.{TIME})) AS newest"]
    for number, query in enumerate(asked.queries):
        wanted = f"FILTER (WHERE {query.condition})"
        parts.append(f"count(*) {wanted} AS n{number}")
        parts += [f"{text} {wanted} AS {name}" for name, text, _ in _partials(number, query)]
    return (
        f"CREATE TEMP TABLE slices AS SELECT {', '.join([*columns, f'{slice_} AS slice', *parts])} "
        f"FROM read_parquet({list(paths)}) AS {alias} GROUP BY {', '.join([*columns, slice_])}"
    )


def _partials(number: int, query: SlicedAggregate) -> list[tuple[str, str, str]]:
    """What is kept of a slice beside its number of rows: name, how it is made, and how it is added up."""
    return [
        (f"q{number}_{at}", *_partial(each))
        for at, each in enumerate(query.aggregates)
        if each.function is not Function.COUNT or each.argument != "*"
    ]


def _partial(each: Aggregate) -> tuple[str, str]:
    match each.function:
        case Function.SUM | Function.AVG:
            return f"sum({each.argument})", "sum"
        case Function.COUNT:
            return f"count({each.argument})", "sum"
        case Function.MIN | Function.MAX:
            return f"{each.function}({each.argument})", str(each.function)
        case Function.DISTINCT:
            raise ValueError("different values cannot be added up")


def _windows_sql(asked: AggregatePass, number: int, query: SlicedAggregate) -> str:
    length, slide = (seconds // asked.slice_seconds for seconds in (query.window.seconds, query.window.slide))
    opened = f"unnest(range((slice - {length}) // {slide} + 1, slice // {slide} + 1))"
    names = [f"n{number}", *(name for name, _, _ in _partials(number, query))]
    added = [f"sum(n{number}) AS n{number}", *(f"{how}({name}) AS {name}" for name, _, how in _partials(number, query))]
    inner = f"SELECT {', '.join([*asked.keys, *names])}, {opened} AS opened FROM slices WHERE n{number} > 0"
    newest = f"(SELECT max(newest) // {asked.slice_seconds * MICROS} FROM slices)"
    # The largest of everything is asked for: what nobody looks at would not be computed.
    largest = ", ".join(f"max({name})" for name in names)
    return (
        f"SELECT count(*), {largest} FROM (SELECT {', '.join([*asked.keys, 'opened', *added])} FROM ({inner}) "
        f"WHERE opened * {slide} + {length} <= {newest} GROUP BY {', '.join([*asked.keys, 'opened'])})"
    )
