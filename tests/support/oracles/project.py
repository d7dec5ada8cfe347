"""The SELECT list and HAVING of an aggregation, which Spark computes in production, computed by DuckDB."""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa
import sqlglot

from tests.support.harness_api import Row
from weft.plan.query import BoundQuery


def project(groups: pa.Table, query: BoundQuery) -> list[Row]:
    """The query's outputs over the groups (columns g0, …, a0, …, window_start, window_end) that pass HAVING."""
    assert query.aggregation is not None
    sql = f"SELECT {', '.join(_translated(output.sql) for output in query.outputs)} FROM groups"
    if query.aggregation.having is not None:
        sql += f" WHERE {_translated(query.aggregation.having)}"
    cursor = _database().cursor()
    cursor.register("groups", groups)
    rows: list[Row] = cursor.execute(sql).fetchall()
    cursor.close()
    return rows


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _translated(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]
