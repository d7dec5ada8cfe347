"""Odd timestamps on real Spark: they fail nobody's batch, end nobody's stream, and can be read."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet
import pytest

import weft
from tests.spark.support import Place, rows, steps

pytestmark = pytest.mark.spark

DDL = "ts timestamp, k bigint"
SECOND = 1_000_000
LATEST = 2**63 - 1


def put(place: Place, name: str, *times: int) -> None:
    """A file of rows with these event times, numbered by k."""
    folder = place.root / "a"
    folder.mkdir(exist_ok=True)
    stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    pa.parquet.write_table(pa.table({"ts": stamps, "k": pa.array(range(len(times)), pa.int64())}), folder / ".new")
    (folder / ".new").rename(folder / f"{name}.parquet")


def test_a_row_of_the_future_is_set_aside(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    now = int(time.time()) * SECOND
    engine = place.engine()
    put(place, "0", now)
    engine.stream("a", weft.files(place.root / "a", schema=DDL), time="ts")
    plain = engine.create("SELECT k FROM a")
    spark = engine.create("SELECT k FROM a WHERE upper(CAST(k AS STRING)) >= '0'")
    steps(engine)
    put(place, "1", now + 10 * 365 * 86_400 * SECOND, LATEST)
    with caplog.at_level(logging.WARNING, "weft"):
        (summary,) = steps(engine)
    assert (summary.ahead, summary.late, summary.rows) == (2, 0, 2)
    assert any(text.startswith('2 rows of stream "a" were set aside') for text in caplog.messages)
    kept = engine.core.directory.read_json("ahead", "a.json")
    assert [row["k"] for row in kept["rows"]] == ["0", "1"]
    put(place, "2", now + SECOND)
    (summary,) = steps(engine)
    assert (summary.ahead, summary.late) == (0, 0)
    assert rows(plain) == rows(spark) == [(0,), (0,)]


def test_any_time_can_be_read_and_a_watermark_set_back(place: Place) -> None:
    engine = place.engine()
    put(place, "0", 0, 300_000_000_000 * SECOND, LATEST)
    engine.stream("a", weft.files(place.root / "a", schema=DDL), time="ts", max_ahead=None)
    every = engine.create("SELECT ts, k FROM a")
    engine.create("SELECT COUNT(*) AS n FROM a [TUMBLE 10 SECONDS]")
    steps(engine)
    texts = [row.ts for row in every.tail()]
    assert texts == [datetime(1970, 1, 1, tzinfo=UTC), "+011476-08-15T05:20:00Z", "+294247-01-10T04:00:54.775807Z"]
    assert every.results().count() == 3
    after = engine.create("SELECT k FROM a")
    assert after.complete_from == datetime.max.replace(tzinfo=UTC)
    engine.set_watermark("a", "1970-01-01T00:01:00Z")
    put(place, "1", 59 * SECOND, 60 * SECOND)
    (summary,) = steps(engine)
    assert summary.late == 1
    assert rows(after) == [(1,)]
    assert after.complete_from == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    again = place.engine()
    assert again.core.watermarks()["a"] == 60 * SECOND
