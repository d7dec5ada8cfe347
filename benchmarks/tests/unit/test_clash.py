"""The workload of `weft-bench clash`, what it predicts, and the bytes of `weft-bench chain`."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from weft.plan.stream import FrameSource, Stream
from weft.sql import bind, parse_schema
from weft_bench import chain, clash

STREAMS = {
    f"r{at:03}": Stream(f"r{at:03}", parse_schema(clash.SCHEMA), "ts", timedelta(0), None, FrameSource())
    for at in range(clash.RELATIONS)
}


@pytest.mark.parametrize("queries", [5, 10])
def test_queries_are_joins_of_three_and_four_that_bind(queries: int) -> None:
    setting = clash.Setting(queries, 100, 4, 1)
    found = clash.queries_of(setting)
    assert [len(query.inputs) for query in found] == [3 + at % 2 for at in range(queries)]
    for number, query in enumerate(found):
        bound = bind(clash.to_sql(query, number), STREAMS)
        assert len(bound.relations) == len(query.inputs)
        assert len(bound.keys) == len(query.predicates)
    assert clash.queries_of(setting) == found


def test_planning_together_is_predicted_to_be_cheapest() -> None:
    for queries in (5, 10):
        told = clash.predicted(clash.Setting(queries, 1000, 4, 1))
        assert told["together"] <= told["alone"] <= told["independent"]
    assert told["together"] < 0.5 * told["independent"]


def test_duckdb_counts_what_nested_loops_count(tmp_path: Path) -> None:
    setting = clash.Setting(1, 30, 3, 1)
    clash.generate(tmp_path, setting)
    (query,) = clash.queries_of(setting)
    rows = [pq.read_table(tmp_path / "data" / each.stream).to_pylist() for each in query.inputs]
    counted = 0
    for combination in product(*rows):
        by_name = dict(zip(query.inputs, combination, strict=True))
        times = [row["ts"] for row in combination]
        joined = all(
            by_name[p.left.input][p.left.name] == by_name[p.right.input][p.right.name] for p in query.predicates
        )
        near = max(times) - min(times) < timedelta(seconds=clash.WINDOW)
        counted += joined and near and combination[0]["v"] < 95
    assert clash.expected_count(setting, tmp_path, 0) == counted > 0


def test_lists_are_smaller_than_rows(tmp_path: Path) -> None:
    sent = chain.count_bytes(chain.Setting(20, 4, 2, 20.0), tmp_path / "state")
    assert sent.combinations > 0
    assert 0 < sent.lists < sent.rows


def test_the_chain_binds() -> None:
    streams = {
        name: Stream(name, parse_schema(chain.SCHEMA), "ts", timedelta(0), None, FrameSource())
        for name in chain.STREAMS
    }
    assert len(bind(chain.weft_sql(5), streams).keys) == 3
    assert chain.Setting(100, 1, 5, 100.0).keys == 5
