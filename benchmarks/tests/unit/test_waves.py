from __future__ import annotations

import math
from datetime import timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.plan.stream import FrameSource, Stream
from weft.sql import bind, parse_schema
from weft_bench.data import SCHEMA, STREAMS
from weft_bench.waves import (
    Commit,
    Latency,
    Shape,
    Step,
    complex_queries,
    latency_of,
    next_step,
    throughput_of,
    wanted_queries,
)

DECLARED = {name: Stream(name, parse_schema(SCHEMA), "ts", timedelta(0), None, FrameSource()) for name in STREAMS}


def test_the_waves_are_those_of_the_figure() -> None:
    steps = [wanted_queries(share, 100) for share in (0.0, 0.029, 0.031, 0.129, 0.131, 0.26)]
    assert steps == [10, 10, 50, 50, 100, 100]
    falling = [wanted_queries(share / 100, 100) for share in range(27, 51)]
    assert falling == sorted(falling, reverse=True)
    rising = [wanted_queries(share / 100, 100) for share in range(50, 77)]
    assert rising == sorted(rising)
    assert (falling[-1], rising[-1]) == (30, 90)
    fluctuating = [wanted_queries(share / 1000, 100) for share in range(800, 1000)]
    crossings = sum((before < 60) != (after < 60) for before, after in pairwise(fluctuating))
    assert max(fluctuating) > 90
    assert min(fluctuating) < 30
    assert crossings >= 4


@given(st.floats(0.0, 1.0), st.integers(1, 500))
def test_there_are_always_some_queries_and_never_too_many(share: float, most: int) -> None:
    assert 1 <= wanted_queries(share, most) <= most


@given(st.integers(0, 300), st.integers(1, 300), st.floats(0.0, 1.0))
def test_a_step_leads_to_the_wanted_number(running: int, wanted: int, turnover: float) -> None:
    step = next_step(running, wanted, turnover=turnover)
    assert running - step.leave + step.come == wanted
    assert 0 <= step.leave <= running


def test_queries_are_replaced_where_their_number_stays() -> None:
    assert next_step(50, 50, turnover=0.05) == Step(3, 3)
    assert next_step(50, 40, turnover=0.0) == Step(10, 0)


def test_queries_have_every_shape_and_bind() -> None:
    queries = list(islice(complex_queries(1), 60))
    assert [query.shape for query in queries[:3]] == list(Shape)
    for query in queries:
        bound = bind(query.weft_sql(), DECLARED)
        assert len(bound.relations) == (1 if query.shape is Shape.AGGREGATE else 2)
        assert ("GROUP BY" in query.weft_sql()) == (query.shape is not Shape.JOIN)
    assert list(islice(complex_queries(1), 60)) == queries
    assert list(islice(complex_queries(2), 60)) != queries


def commits(*latencies: float) -> list[Commit]:
    return [Commit(100.0 + at, 100.0 + at - latency, 10, 3) for at, latency in enumerate(latencies)]


def test_latency_by_thirds() -> None:
    found = latency_of(commits(9.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0), 100.0, 109.0, bound=10.0)
    assert found == Latency(2.0, 2.0, 3.0, 9.0, 10.0)
    assert found.is_bounded


@pytest.mark.parametrize(
    ("middle", "last", "largest", "bounded"),
    [(1.0, 2.0, 5.0, True), (1.0, 2.01, 5.0, False), (1.0, 1.0, 5.01, False), (math.inf, math.inf, math.inf, False)],
)
def test_what_counts_as_bounded(middle: float, last: float, largest: float, bounded: bool) -> None:
    assert Latency(1.0, middle, last, largest, 5.0).is_bounded is bounded


def test_a_third_without_batches_is_not_bounded() -> None:
    assert not latency_of(commits(1.0, 1.0, 1.0), 100.0, 200.0, bound=10.0).is_bounded
    assert not latency_of([], 0.0, 1.0, bound=10.0).is_bounded


def test_throughput_is_taken_from_commit_to_commit() -> None:
    batches = [Commit(1.0, 0.5, 100, 1), Commit(3.0, 2.5, 50, 1), Commit(3.0, 2.5, 50, 1), Commit(3.5, 3.0, 10, 1)]
    assert throughput_of(batches) == [(3.0, 25.0), (3.5, 20.0)]
    assert throughput_of([]) == []
