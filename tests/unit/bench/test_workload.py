from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from weft.bench.data import SCHEMA, STREAMS
from weft.bench.workload import LONGEST_WINDOW, Predicate, WindowJoin, window_joins
from weft.plan.stream import FrameSource, Stream
from weft.sql import bind, parse_schema

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
        assert bound.is_join
        assert [output.name for output in bound.outputs] == ["a_ts", "b_ts", "k", "a_f0", "b_f0"]
        reach = query.seconds * 1_000_000 - 1
        assert (bound.bounds.low, bound.bounds.high) == (-reach, reach)
        assert 1 <= query.seconds <= LONGEST_WINDOW


def test_spark_condition_excludes_both_ends() -> None:
    query = WindowJoin(Predicate(0, True, 1), Predicate(1, False, 2), 2)
    reach = "INTERVAL 2 SECONDS"
    assert query.spark_condition() == f"a_k = b_k AND b_ts > a_ts - {reach} AND b_ts < a_ts + {reach}"
