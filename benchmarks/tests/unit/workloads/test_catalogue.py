from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from benchmarks.tests.unit.workloads.small import ARROW, declared, in_duckdb, rows_of
from weft.sql import bind
from weft_bench.workloads.catalogue import WORKLOADS, workload
from weft_bench.workloads.model import Dialect, QuerySpec, Workload

SMALL: dict[str, dict[str, Any]] = {
    "sc1": {"keys": 20, "rate": 50},
    "aggregation": {"keys": 5, "rate": 100},
    "purchases": {"users": 10, "packs": 10, "rate": 40},
    "purchases-aggregation": {"packs": 100, "rate": 60},
    "astream": {"kind": "mixed", "keys": 20, "rate": 40, "ways": 3},
    "ajoin": {"ways": 3, "similarity": 0.4, "rate": 60, "domain": 30},
    "skew": {"keys": 50, "rate": 40},
    "windows": {"seconds": 4, "keys": 100, "rate": 50},
    "nexmark": {"rate": 500},
    "tpch": {"scale": 0.001},
    "rules": {"keys": 5, "rate": 500, "selectivity": 0.05},
}
COUNT = 36
SECONDS = 8


@pytest.fixture(params=WORKLOADS)
def small(request: pytest.FixtureRequest) -> Workload:
    return workload(request.param, **SMALL[request.param])


def test_every_workload_is_tested() -> None:
    assert set(SMALL) == set(WORKLOADS)


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "tpch"])
def test_defaults_make_a_workload_of_that_name(name: str) -> None:
    found = workload(name)
    assert found.name == name
    assert found.title
    assert found.rows_per_second > 0


def test_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match='no workload is named "sc3"; there are sc1'):
        workload("sc3")


def test_another_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match='workload "sc1" has no parameter packs; it has seed, keys'):
        workload("sc1", packs=3)


def test_shares_add_up_to_one(small: Workload) -> None:
    assert sum(each.share for each in small.streams) == pytest.approx(1)


def test_rows_have_the_declared_columns(small: Workload) -> None:
    for stream in small.streams:
        columns = stream.make(np.random.default_rng(3), np.arange(100, 150))
        assert next(iter(stream.columns)) == "ts"
        assert {"ts": ARROW["timestamp"]} | {name: values.type for name, values in columns.items()} == {
            name: ARROW[kind] for name, kind in stream.columns.items()
        }
        assert {len(values) for values in columns.values()} == {50}
        assert all(isinstance(values, pa.Array) and values.null_count == 0 for values in columns.values())


def test_rows_are_the_same_with_the_same_seed(small: Workload) -> None:
    for stream in small.streams:
        once, again = (stream.make(np.random.default_rng(3), np.arange(50)) for _ in range(2))
        assert all(once[name].equals(again[name]) for name in once)


def test_streams_of_one_kind_have_rows_of_their_own() -> None:
    made = [each.make(np.random.default_rng(3), np.arange(50)) for each in workload("sc1").streams]
    assert not made[0]["f0"].equals(made[1]["f0"])


def test_first_queries_of_a_longer_list_are_those_of_a_shorter_one(small: Workload) -> None:
    assert small.queries(COUNT)[:5] == small.queries(5)
    assert len({each.name for each in small.queries(COUNT)}) == COUNT


def test_queries_differ(small: Workload) -> None:
    texts = [each.texts[Dialect.WEFT] for each in small.queries(COUNT)]
    # Of a few small parameters, some queries are drawn twice.
    assert len(set(texts)) > COUNT / 3


def test_another_seed_gives_other_queries(small: Workload) -> None:
    other = workload(small.name, **SMALL[small.name], seed=8)
    assert other.queries(COUNT) != small.queries(COUNT)


def test_a_workload_can_go_to_another_process(small: Workload) -> None:
    there = pickle.loads(pickle.dumps(small))
    assert there == small
    assert there.queries(3) == small.queries(3)


def test_every_query_binds_in_weft(small: Workload) -> None:
    streams = declared(small)
    for query in small.queries(COUNT):
        bound = bind(query.texts[Dialect.WEFT], streams)
        assert bound.notices == ()
        assert set(query.newest) <= {output.name for output in bound.outputs}


def test_every_query_says_why_it_lacks_a_dialect(small: Workload) -> None:
    for query in small.queries(COUNT):
        assert Dialect.WEFT in query.texts
        assert Dialect.DUCKDB in query.texts
        assert set(query.texts) | set(query.why_not) == set(Dialect)
        assert not set(query.texts) & set(query.why_not)
        assert all(query.why_not.values())


def test_every_duckdb_text_runs(small: Workload) -> None:
    tables = rows_of(small, SECONDS)
    found = in_duckdb(small.queries(COUNT), tables)
    assert any(found.values())


def test_the_observed_query_gives_some_rows_and_not_all(small: Workload) -> None:
    query = small.queries(1)[0]
    assert query.newest
    tables = rows_of(small, 2 * SECONDS)
    found = in_duckdb((query,), tables)[query.name].total()
    assert 0 < found < 50 * sum(table.num_rows for table in tables.values())


def test_outputs_have_the_same_names_in_all_dialects(small: Workload) -> None:
    for query in small.queries(COUNT):
        names = bind(query.texts[Dialect.WEFT], declared(small)).outputs
        for dialect in (Dialect.SPARK, Dialect.DUCKDB):
            if dialect in query.texts:
                assert output_names(query, dialect) == [each.name for each in names]


def output_names(query: QuerySpec, dialect: Dialect) -> list[str]:
    # sqlglot takes a window at the beginning of GROUP BY for a WINDOW clause.
    text = query.texts[dialect].replace("GROUP BY window(", "GROUP BY 0, window(")
    parsed = sqlglot.parse_one(text, read=dialect.value)
    assert isinstance(parsed, exp.Select)
    return parsed.named_selects
