"""The same queries by DuckDB alone, over the files as they are: whether a measured program was a right one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from weft.bench.case import Case, Digest
from weft.bench.data import STREAMS, file_of
from weft.bench.workload import WindowJoin, window_joins

_MICROS = 1_000_000


def result_alone(query: WindowJoin, folder: Path, seconds: int) -> Digest:
    """The digest of a query's result over the first `seconds` files of each stream under `folder`."""
    sides = [
        f"(SELECT epoch_us(ts) AS t, k, f0 FROM read_parquet({_paths(folder, name, seconds)}) WHERE {predicate.sql()})"
        for name, predicate in zip(STREAMS, (query.left, query.right), strict=True)
    ]
    reach = query.seconds * _MICROS
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT count(*), coalesce(sum(a.k), 0), coalesce(sum(a.f0 + 1000 * b.f0), 0), coalesce(sum(a.t - b.t), 0) "
            f"FROM {sides[0]} a JOIN {sides[1]} b ON a.k = b.k WHERE a.t - b.t > -{reach} AND a.t - b.t < {reach}"
        ).fetchone()
    assert found is not None
    return Digest(*(int(figure) for figure in found))


def _paths(folder: Path, stream: str, seconds: int) -> list[str]:
    return [str(file_of(folder, stream, second)) for second in range(seconds)]


def disagreements(case: Case, digests: Mapping[int, Digest], folder: Path) -> list[str]:
    """What a case's results have wrong, one line for each query that differs."""
    queries = window_joins(case.queries)
    wrong = []
    for number, digest in digests.items():
        expected = result_alone(queries[number], folder, case.seconds)
        if digest != expected:
            wrong.append(
                f"{case.label}, N = {case.queries}, query {number}: {digest}, but DuckDB alone says {expected}"
            )
    return wrong
