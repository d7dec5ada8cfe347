"""The demo's queries: all of them bind, and the crowd is the same for the same seed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from examples.ads.generate import LATENESS_SECONDS, SCHEMAS
from examples.ads.workload import FIRST, Crowd, DemoQuery
from weft.plan.stream import FrameSource, Stream
from weft.plan.window import Range, Sliding
from weft.sql import bind, parse_schema

LATENESS = timedelta(seconds=LATENESS_SECONDS)
STREAMS = {
    name: Stream(name, parse_schema(schema), "ts", LATENESS, None, FrameSource()) for name, schema in SCHEMAS.items()
}


def many(count: int, seed: int = 1) -> list[DemoQuery]:
    return Crowd(seed, most=count, seconds=60).arrivals(0, 60)


@pytest.mark.parametrize("seed", range(5))
def test_every_query_binds_as_it_is_meant(seed: int) -> None:
    for query in many(100, seed):
        bound = bind(query.sql, STREAMS)
        assert [relation.stream for relation in bound.relations] == [stream for stream, _ in query.relations]
        assert len(bound.keys) == len(query.keys)
        assert len(bound.outputs) == len(query.outputs.split(", "))
        size, slide = timedelta(seconds=query.size), timedelta(seconds=query.slide)
        assert bound.sliding == (Sliding(size, slide) if slide else None)
        if size and not slide:
            assert [relation.window for relation in bound.relations] == [Range(size)] * 2
        assert all(relation.predicate is not None for relation in bound.relations)


def test_every_kind_of_query_comes() -> None:
    queries = many(200)
    assert {query.name.split("-")[0] for query in queries} == {"near", "tumble", "slide", "again", "buys", "ads"}
    windows = {query.sql.partition("[")[2].partition(" ")[0] for query in queries}
    assert windows == {"RANGE", "TUMBLE", ""}
    assert any("SLIDE" in query.sql for query in queries)
    assert len({query.name for query in queries}) == 200


def test_the_same_seed_asks_the_same() -> None:
    assert many(50, seed=4) == many(50, seed=4)
    assert many(50, seed=4) != many(50, seed=5)


def test_the_crowd_grows_from_a_handful_to_its_limit() -> None:
    crowd = Crowd(1, most=40, seconds=60)
    live, sizes = 0, []
    for second in range(60):
        live += len(crowd.arrivals(live, second))
        sizes.append(live)
    assert sizes[0] == FIRST
    assert sizes == sorted(sizes)
    assert sizes[-1] == crowd.made == 40
    assert crowd.arrivals(40, 60) == []


def test_a_limit_below_the_first_handful_holds() -> None:
    assert len(many(2)) == 2


def test_some_leave_and_most_stay() -> None:
    crowd = Crowd(1, most=40, seconds=60)
    assert 5 < sum(crowd.leaves(1) for _ in range(1_000)) < 60
    assert all(crowd.leaves(3_600) for _ in range(100))
