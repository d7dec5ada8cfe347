"""The same queries by DuckDB alone, over the files as they are: whether a measured program was a right one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from weft_bench.case import Case, Digest, Kind
from weft_bench.data import START, STREAMS, file_of
from weft_bench.workload import FAN_OUT_WINDOW, WindowAggregate, WindowJoin, window_aggregates, window_joins

_MICROS = 1_000_000
_START = int(START.timestamp())


def join_alone(query: WindowJoin, folder: Path, seconds: int) -> Digest:
    """The digest of a join's result over the first `seconds` files of each stream under `folder`."""
    sides = [
        f"(SELECT epoch_us(ts) AS t, k, f0 FROM read_parquet({_paths(folder, name, seconds)}) WHERE {predicate.sql()})"
        for name, predicate in zip(STREAMS, (query.left, query.right), strict=True)
    ]
    reach = query.seconds * _MICROS
    return _digest(
        "SELECT count(*), sum(a.k), sum(a.f0 + 1000 * b.f0), sum(a.t - b.t) "
        f"FROM {sides[0]} a JOIN {sides[1]} b ON a.k = b.k WHERE a.t - b.t > -{reach} AND a.t - b.t < {reach}"
    )


def aggregate_alone(query: WindowAggregate, folder: Path, seconds: int) -> Digest:
    """The same for an aggregate: the windows that the last file ends, as it holds a whole second after their end."""
    windows = -(-query.seconds // query.slide)
    rows = (
        f"(SELECT *, epoch_us(ts) // {_MICROS} AS moment FROM read_parquet({_paths(folder, STREAMS[0], seconds)}) "
        f"WHERE {query.predicate.sql()})"
    )
    begins = f"(moment // {query.slide} - back) * {query.slide}"
    return _digest(
        f"SELECT {', '.join(query.digest_sql())} FROM ("
        f"SELECT k, {begins} - {_START} AS second, {query.outputs_sql()} FROM {rows}, range({windows}) AS b(back) "
        f"WHERE moment < {begins} + {query.seconds} AND {begins} + {query.seconds} <= {_START + seconds - 1} "
        "GROUP BY ALL)"
    )


def fan_out_alone(folder: Path, seconds: int) -> Digest:
    """The same for the aggregate over the join with the large fan-out; one side is added up first, by key."""
    sides = [
        f"(SELECT k, f0, f1, f2, epoch_us(ts) // {_MICROS * FAN_OUT_WINDOW} AS w "
        f"FROM read_parquet({_paths(folder, name, seconds)}))"
        for name in STREAMS
    ]
    right = f"(SELECT k, w, count(*) AS many, sum(f2) AS f2 FROM {sides[1]} GROUP BY k, w)"
    return _digest(
        "SELECT count(*), sum(g * n), sum((g + 1) * (n + total + product)), sum(second * n) FROM ("
        f"SELECT a.f0 AS g, a.w * {FAN_OUT_WINDOW} - {_START} AS second, "
        "sum(b.many) AS n, sum(a.f1 * b.many) AS total, sum(a.f1 * b.f2) AS product "
        f"FROM {sides[0]} a JOIN {right} b ON a.k = b.k AND a.w = b.w "
        f"WHERE (a.w + 1) * {FAN_OUT_WINDOW} <= {_START + seconds - 1} GROUP BY a.f0, a.w)"
    )


def _digest(sql: str) -> Digest:
    with duckdb.connect() as connection:
        found = connection.execute(sql).fetchone()
    assert found is not None
    return Digest(*(int(figure or 0) for figure in found))


def result_alone(case: Case, number: int, folder: Path) -> Digest:
    """The digest of the result of a case's query."""
    match case.kind:
        case Kind.JOINS:
            return join_alone(window_joins(case.queries)[number], folder, case.seconds)
        case Kind.AGGREGATES:
            return aggregate_alone(window_aggregates(case.queries)[number], folder, case.seconds)
        case Kind.FAN_OUT:
            return fan_out_alone(folder, case.seconds)


def _paths(folder: Path, stream: str, seconds: int) -> list[str]:
    return [str(file_of(folder, stream, second)) for second in range(seconds)]


def disagreements(case: Case, digests: Mapping[int, Digest], folder: Path) -> list[str]:
    """What a case's results have wrong, one line for each query that differs."""
    wrong = []
    for number, digest in digests.items():
        expected = result_alone(case, number, folder)
        if digest != expected:
            what = f"{case.label}, {case.kind}, N = {case.queries}, query {number}"
            wrong.append(f"{what}: {digest}, but DuckDB alone says {expected}")
    return wrong
