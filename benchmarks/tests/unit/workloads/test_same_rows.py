"""A query's texts mean the same rows: weft's, run by its own stages, and DuckDB's, for every shape there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.tests.unit.workloads.small import in_duckdb, in_weft, rows_of
from weft_bench.workloads.catalogue import workload

CASES: list[tuple[str, dict[str, Any], int, int]] = [
    ("sc1", {"keys": 20, "rate": 60}, 4, 7),
    ("aggregation", {"keys": 4, "rate": 80, "longest": 6}, 6, 12),
    ("purchases", {"users": 5, "packs": 10, "rate": 30, "seconds": 3, "slide": 2}, 3, 7),
    ("purchases-aggregation", {"packs": 10, "rate": 60, "seconds": 3, "slide": 1, "observed": 2}, 3, 7),
    ("astream", {"kind": "mixed", "keys": 12, "rate": 30, "skew": "uniform", "longest": 3, "observed": 3}, 9, 7),
    ("ajoin", {"ways": 2, "rate": 60, "domain": 40}, 3, 7),
    ("ajoin", {"ways": 3, "rate": 40, "domain": 30}, 3, 7),
    ("windows", {"seconds": 5, "keys": 60, "rate": 40}, 2, 12),
    ("nexmark", {"rate": 200, "templates": "q3,q20,q5,q8,q2,q17,q11,q9,q7,q15,q16,q0", "observed": 8}, 24, 32),
    ("tpch", {"scale": 0.003, "templates": "q3,q10,q5,q7,q9,clash1,clash3"}, 7, 7),
    ("rules", {"keys": 5, "rate": 300, "selectivity": 0.1}, 4, 7),
]
"""Workload, parameters, how many queries, event-seconds of input."""


@pytest.mark.parametrize(("name", "parameters", "count", "seconds"), CASES)
def test_weft_gives_what_duckdb_gives(
    name: str, parameters: dict[str, Any], count: int, seconds: int, tmp_path: Path
) -> None:
    chosen = workload(name, **parameters)
    queries, tables = chosen.queries(count), rows_of(chosen, seconds)
    expected = in_duckdb(queries, tables)
    found = in_weft(chosen, queries, tables, tmp_path)
    for query in queries:
        assert found[query.name] == expected[query.name], query.name
    assert sum(bool(rows) for rows in expected.values()) > count / 2, "too few queries have rows to compare"
