"""Spark SQL over the columns of groups, computed by DuckDB."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa

from tests.support.oracles.project import project
from weft.plan.aggregation import Aggregation
from weft.plan.query import BoundQuery, Output

START = datetime(2024, 1, 1, tzinfo=UTC)
GROUPS = pa.table(
    {
        "g0": pa.array(["a", "b", None]),
        "a0": pa.array([3, None, 5], pa.int64()),
        "a1": pa.array([2, 0, 1], pa.int64()),
        "a2": pa.array([Decimal("1.00"), None, Decimal("2.50")], pa.decimal128(20, 2)),
        "a3": pa.array([float("nan"), 4.0, None]),
        "window_start": pa.array([START] * 3, pa.timestamp("us", "UTC")),
    }
)


def rows(*outputs: str, having: str | None = None) -> list[tuple[object, ...]]:
    listed = tuple(Output(f"out{number}", sql, None) for number, sql in enumerate(outputs))
    return project(GROUPS, BoundQuery("", (), (), listed, aggregation=Aggregation((), (), having)))


def test_columns() -> None:
    assert rows("`g0`", "`a0`", "`window_start`") == [("a", 3, START), ("b", None, START), (None, 5, START)]


def test_mean() -> None:
    assert rows("CAST(`a0` AS DOUBLE) / NULLIF(`a1`, 0)") == [(1.5,), (None,), (5.0,)]


def test_mean_of_decimals_is_a_decimal() -> None:
    mean = "CAST(`a2` / CAST(NULLIF(`a1`, 0) AS DECIMAL(20,0)) AS DECIMAL(14,6))"
    assert rows(mean) == [(Decimal("0.500000"),), (None,), (Decimal("2.500000"),)]


def test_deviation() -> None:
    assert rows("CASE WHEN `a1` > 1 THEN SQRT(`a0` / (`a1` - 1)) END") == [(3**0.5,), (None,), (None,)]


def test_having() -> None:
    assert rows("`g0`", having="`a0` > 3") == [(None,)]
    assert rows("`g0`", having="`a3` > CAST('Infinity' AS DOUBLE)") == [("a",)]
    assert rows("`a1`", having="`g0` <=> NULL") == [(1,)]
    assert rows("`g0`", having="`a3` = 4.0D") == [("b",)]
    assert rows("`a1`", having="`window_start` <> TIMESTAMP'2024-01-01 00:00:00.000000+00:00'") == []
