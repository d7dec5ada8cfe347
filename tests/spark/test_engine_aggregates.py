"""Aggregations and sessions on real Spark: results, restart, drop and re-create, sinks, explain, idle streams."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet
import pytest

import weft
from tests.spark.support import DDL, Place, alone, at, ordered, rows, steps

pytestmark = pytest.mark.spark

SUMS = "SELECT k, window_start, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 4 SECONDS SLIDE 2 SECONDS] {} GROUP BY k"


def _sums(table: list[pa.Table], until: int, where: str = "true") -> list[tuple[object, ...]]:
    """Windows of four seconds every two that end at most `until` seconds after the beginning."""
    begin = int(at(0).timestamp())
    return alone(
        {"a": table},
        "SELECT k, to_timestamp(w) AS ws, count(*), sum(v)::BIGINT FROM (SELECT *, unnest(generate_series("
        f"(epoch_us(ts) // 2000000 - 1) * 2, epoch_us(ts) // 2000000 * 2, 2)) AS w FROM a WHERE {where}) "
        f"WHERE w + 4 <= {begin + until} GROUP BY ALL",
    )


def test_windows_end_with_the_batch_that_passes_them(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", lateness="1 second")
    every = engine.create(SUMS.format(""), name="every")
    some = engine.create(SUMS.format("WHERE v > 2"), name="some")
    a = [place.put("a", *((second / 2, second % 3, second) for second in range(10)))]
    steps(engine)
    assert rows(every) == _sums(a, 3) != []
    a.append(place.put("a", (5.0, None, 7), (4.2, 1, 8), (6.5, 2, None)))  # out of order, and NULLs
    steps(engine)
    assert rows(every) == _sums(a, 5)
    assert rows(some) == _sums(a, 5, "v > 2")
    place.put("a", (5.4, 1, 100))  # late: the watermark is at 5.5
    a.append(place.put("a", (11, 0, 1)))
    steps(engine)
    assert rows(every) == _sums(a, 10)
    assert rows(some) == _sums(a, 10, "v > 2")
    assert ordered(every.tail()) == ordered(tuple(row) for row in _sums(a, 10))


def test_a_restart_goes_on_in_the_middle_of_windows(place: Place) -> None:
    a: list[pa.Table] = []
    for round_, partitions in enumerate((2, 3, 1)):
        engine = place.engine(partitions=partitions)
        if not round_:
            place.streams(engine, "a")
            engine.create(SUMS.format(""), name="sums", sink=weft.parquet(place.root / "out"))
        a.append(place.put("a", *((3 * round_ + n / 4, n % 4, n) for n in range(12))))
        steps(engine)
        assert rows(engine.query("sums")) == _sums(a, (3 * round_ * 4 + 11) // 4)
        place.close()
    found = pyarrow.parquet.read_table(place.root / "out").to_pylist()
    assert ordered(tuple(row.values()) for row in found) == _sums(a, 8)


def test_dropped_and_created_again(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    first = engine.create(SUMS.format(""), name="sums")
    a = [place.put("a", *((n / 2, n % 2, n) for n in range(12)))]
    steps(engine)
    first.drop()
    second = engine.create(SUMS.format(""), name="sums")
    b = [place.put("a", *((6 + n / 2, n % 2, n) for n in range(13)))]
    steps(engine)
    assert second.complete_from == at(5.5) + timedelta(microseconds=1)
    assert rows(first) == _sums(a, 5)
    assert rows(second) == [row for row in _sums(b, 12) if row[1] >= at(6)]
    second.drop()
    place.put("a", (13, 0, 0))
    steps(engine)
    assert not engine.core.inventory.buckets


def test_every_function_with_having(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create(
        "SELECT upper(name) AS u, COUNT(v), AVG(v), STDDEV(v), MIN(name), MAX(ts), COUNT(DISTINCT v), "
        "approx_count_distinct(v), percentile_approx(v, 0.5), SUM(CAST(v AS DECIMAL(10, 2))) AS d, "
        "SUM(v) FILTER (WHERE k = 1) AS f FROM a [TUMBLE 10 SECONDS] GROUP BY upper(name) HAVING COUNT(*) > 1"
    )
    place.put("a", (1, 1, 2, "x"), (2, 2, 4, "X"), (3, 1, None, "x"), (4, 1, 5, "y"), (5, 1, 5, None), (6, 2, 7, None))
    place.put("a", (11, 0, 0))
    steps(engine)
    found = {row[0]: row[1:] for row in rows(query)}
    assert found.keys() == {"X", None}
    assert found["X"][:3] == (2, 3.0, pytest.approx(2**0.5))
    assert found["X"][3:7] == ("X", at(3), 2, 2)
    assert found["X"][7] == pytest.approx(2, rel=0.01)
    assert found["X"][8:] == (Decimal("6.00"), 2)
    assert found[None][:2] == (2, 6.0)


def test_sessions_of_groups_and_of_joins(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b", lateness="1 second")
    counts = engine.create("SELECT k, window_start, window_end, COUNT(*) AS n FROM a [SESSION 2 SECONDS] GROUP BY k")
    pairs = engine.create(
        "SELECT x.v, y.v AS w, window_start, window_end FROM a [SESSION 2 SECONDS] x JOIN b [SESSION 2 SECONDS] y "
        "ON x.k = y.k"
    )
    place.put("a", (0, 1, 1), (1.5, 1, 2), (3.5, 1, 3), (0, 2, 4))
    place.put("b", (3, 1, 10))
    steps(engine)
    assert rows(counts) == ordered([(2, at(0), at(2), 1)])
    place.put("a", (3, 2, 5), (12, 9, 0))
    place.put("b", (12, 9, 0))
    steps(engine)
    assert rows(counts) == ordered(
        [(2, at(0), at(2), 1), (1, at(0), at(3.5), 2), (1, at(3.5), at(5.5), 1), (2, at(3), at(5), 1)]
    )
    assert rows(pairs) == ordered([(v, 10, at(0), at(5.5)) for v in (1, 2, 3)])
    assert "combinations of a session" in engine.explain()


def test_aggregates_over_a_join_wait_for_both_streams_but_not_for_ever(place: Place) -> None:
    engine = place.engine()
    for name in ("a", "b"):
        (place.root / name).mkdir()
        engine.stream(name, weft.files(place.root / name, schema=DDL), time="ts", idle_timeout="0 seconds")
    query = engine.create(
        "SELECT x.name, COUNT(*) AS n, SUM(x.v * y.v) AS p FROM a [TUMBLE 5 SECONDS] x JOIN b [TUMBLE 5 SECONDS] y "
        "ON x.k = y.k GROUP BY x.name"
    )
    place.put("a", (1, 1, 2, "x"), (2, 1, 3, "x"), (3, 2, 4, "y"))
    place.put("b", (1, 1, 10), (4, 1, 20), (4, 3, 5))
    steps(engine)
    assert rows(query) == []
    place.put("a", (6, 1, 1, "x"))  # b is idle: the window ends all the same
    steps(engine)
    assert rows(query) == [("x", 4, 150)]
    assert "builds no pairs" in query.explain()
    assert "slices" in engine.explain()
