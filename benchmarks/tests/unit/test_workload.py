from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from weft.plan.stream import FrameSource, Stream
from weft.sql import bind, parse_schema
from weft_bench.data import SCHEMA, STREAMS
from weft_bench.workload import (
    AGGREGATED_PAIRS,
    LONGEST_AGGREGATE,
    LONGEST_WINDOW,
    PLAIN_PAIRS,
    Extra,
    Predicate,
    WindowAggregate,
    WindowJoin,
    window_aggregates,
    window_joins,
)

DECLARED = {name: Stream(name, parse_schema(SCHEMA), "ts", timedelta(0), None, FrameSource()) for name in STREAMS}


def test_predicate_text() -> None:
    assert Predicate(3, above=True, value=7).sql("a.") == "a.f3 > 7"
    assert Predicate(0, above=False, value=9).sql() == "f0 < 9"


@pytest.mark.parametrize("count", [1, 20, 1000])
def test_queries_are_those_of_the_spike(count: int) -> None:
    """The spike draws all left predicates, then all right ones, then the windows, from seed 7."""
    rng = np.random.default_rng(7)
    sides = [
        [(int(rng.integers(5)), bool(rng.integers(2)), int(rng.integers(500))) for _ in range(count)] for _ in range(2)
    ]
    windows = rng.integers(1, 4, count)
    expected = [
        WindowJoin(Predicate(*left), Predicate(*right), int(seconds))
        for left, right, seconds in zip(*sides, windows, strict=True)
    ]
    assert list(window_joins(count)) == expected


def test_queries_bind_to_joins_with_their_windows() -> None:
    for query in window_joins(50):
        bound = bind(query.weft_sql(), DECLARED)
        assert len(bound.relations) == 2
        assert [output.name for output in bound.outputs] == ["a_ts", "b_ts", "k", "a_f0", "b_f0"]
        reach = query.seconds * 1_000_000 - 1
        assert (bound.bounds.low, bound.bounds.high) == (-reach, reach)
        assert 1 <= query.seconds <= LONGEST_WINDOW


def test_spark_condition_excludes_both_ends() -> None:
    query = WindowJoin(Predicate(0, True, 1), Predicate(1, False, 2), 2)
    reach = "INTERVAL 2 SECONDS"
    assert query.spark_condition() == f"a_k = b_k AND b_ts > a_ts - {reach} AND b_ts < a_ts + {reach}"


def test_aggregates_bind_and_name_their_outputs() -> None:
    for query in window_aggregates(50):
        bound = bind(query.weft_sql(), DECLARED)
        assert len(bound.relations) == 1
        names = ["k", "start", "n", "total", *(["other"] if query.extra else [])]
        assert [output.name for output in bound.outputs] == names
        assert 1 <= query.slide <= query.seconds <= LONGEST_AGGREGATE


def test_aggregates_differ_in_everything_and_repeat() -> None:
    queries = window_aggregates(1000)
    assert window_aggregates(20) == queries[:20]
    assert {query.extra for query in queries} == set(Extra)
    assert {query.seconds for query in queries} == set(range(1, LONGEST_AGGREGATE + 1))
    assert {query.predicate.attribute for query in queries} == {0, 1, 2, 3, 4}
    assert {query.predicate.above for query in queries} == {True, False}


def test_aggregate_text() -> None:
    query = WindowAggregate(Predicate(3, above=True, value=7), 8, 4, 0, Extra.AVG, 2)
    assert query.weft_sql() == (
        "SELECT k, window_start AS start, COUNT(*) AS n, SUM(f0) AS total, AVG(f2) AS other "
        "FROM A [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE f3 > 7 GROUP BY k"
    )


def test_the_join_with_the_large_fan_out_binds_in_both_forms() -> None:
    aggregated, plain = bind(AGGREGATED_PAIRS, DECLARED), bind(PLAIN_PAIRS, DECLARED)
    assert [output.name for output in aggregated.outputs] == ["g", "start", "n", "total", "product"]
    assert [output.name for output in plain.outputs] == ["g", "start", "x", "y"]
    assert len(plain.relations) == 2
