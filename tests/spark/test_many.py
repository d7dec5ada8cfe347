"""A thousand live queries in one job."""

from __future__ import annotations

import time
from random import Random

import pytest

from tests.spark.support import Place, alone, rows, steps, within

pytestmark = pytest.mark.spark


def test_a_thousand_queries(place: Place) -> None:
    random = Random(1)
    engine = place.engine()
    place.streams(engine, "a", "b", lateness="1 second", max_files_per_batch=1)
    wanted = []
    for number in range(1000):
        low, seconds = random.randrange(500), random.choice((1, 2, 3))
        join = f"FROM a [RANGE {seconds} SECONDS] x JOIN b [RANGE {seconds} SECONDS] y ON x.k = y.k"
        wanted.append(
            (f"q-{number}", low, seconds, f"SELECT x.v, y.v AS w {join} WHERE x.v >= {low} AND x.v < {low + 40}")
        )
    began = time.monotonic()
    queries = engine.create_many([(name, sql) for name, _, _, sql in wanted])
    assert time.monotonic() - began < 60
    assert [query.state for query in queries] == ["live"] * 1000
    assert "query-sets of 16 x 64 bits" in engine.explain()
    tables = {
        name: [
            place.put(name, *((s + n / 400, random.randrange(60), random.randrange(540)) for n in range(400)))
            for s in range(3)
        ]
        for name in ("a", "b")
    }
    assert [summary.queries for summary in steps(engine)] == [1000] * 3
    for at in random.sample(range(1000), 6):
        _, low, seconds, sql = wanted[at]
        alone_sql = (
            f"SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND {within('a', 'b', seconds)} "
            f"WHERE a.v >= {low} AND a.v < {low + 40}"
        )
        expected = alone(tables, alone_sql)
        assert expected
        assert rows(queries[at]) == expected, sql
    engine.drop_many(queries[10:])
    assert "query-sets of 1 x 64 bits" in engine.explain()
    place.put("a", (3, 1, wanted[0][1]))
    place.put("b", (3, 1, 0))
    assert steps(engine)[-1].queries == 10
    assert len(rows(queries[0])) > 0
