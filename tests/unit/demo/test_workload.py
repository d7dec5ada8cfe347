"""The demo's queries: all of them bind, and the crowd is the same for the same seed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from weft.demo.generate import LATENESS, SCHEMAS
from weft.demo.workload import FIRST, Crowd, DemoQuery
from weft.plan.stream import FrameSource, Stream
from weft.plan.window import Range, Sliding
from weft.sql import bind, parse_schema

STREAMS = {
    name: Stream(name, parse_schema(schema), "ts", LATENESS, None, FrameSource()) for name, schema in SCHEMAS.items()
}
MINUTE = timedelta(minutes=1)


def many(count: int, seed: int = 1) -> list[DemoQuery]:
    return Crowd(seed, most=count, duration=MINUTE).arrivals(0, MINUTE)


@pytest.mark.parametrize("seed", range(5))
def test_every_query_binds_as_it_is_meant(seed: int) -> None:
    for query in many(100, seed):
        bound = bind(query.sql, STREAMS)
        assert [relation.stream for relation in bound.relations] == [relation.stream for relation in query.relations]
        assert len(bound.keys) == len(query.keys)
        assert len(bound.outputs) == len(query.outputs)
        assert bound.sliding == (query.window if isinstance(query.window, Sliding) else None)
        assert all(relation.predicate is not None for relation in bound.relations)


def test_every_kind_of_query_comes() -> None:
    queries = many(200)
    assert {query.name.split("-")[0] for query in queries} == {"near", "tumble", "slide", "again", "buys", "ads"}
    assert {type(query.window) for query in queries} == {Range, Sliding, type(None)}
    assert len({query.name for query in queries}) == 200


def test_the_same_seed_asks_the_same() -> None:
    assert many(50, seed=4) == many(50, seed=4)
    assert many(50, seed=4) != many(50, seed=5)


def test_the_crowd_grows_from_a_handful_to_its_limit() -> None:
    crowd = Crowd(1, most=40, duration=MINUTE)
    live, sizes = 0, []
    for second in range(60):
        live += len(crowd.arrivals(live, timedelta(seconds=second)))
        sizes.append(live)
    assert sizes[0] == FIRST
    assert sizes == sorted(sizes)
    assert sizes[-1] == 40
    assert crowd.arrivals(40, MINUTE) == []


def test_a_limit_below_the_first_handful_holds() -> None:
    assert len(many(2)) == 2


def test_who_leaves_was_there_and_some_stay() -> None:
    crowd = Crowd(1, most=40, duration=MINUTE)
    names = [f"q{number}" for number in range(1_000)]
    leaving = crowd.leavers(names, timedelta(seconds=1))
    assert 5 < len(leaving) < 60
    assert set(leaving) < set(names)
    assert crowd.leavers(names, timedelta(hours=1)) == names


def test_brief_is_short() -> None:
    for query in many(100):
        assert "SELECT" not in query.brief
        assert query.brief.endswith(query.conditions()[-1])
        assert len(query.brief) < len(query.sql)
