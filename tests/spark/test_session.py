"""The user's Spark is used, never changed and never stopped; rows do not depend on its settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.support import DDL, Place, rows, steps
from weft.errors import InvalidSetting
from weft.spark.pinned_settings import PINNED
from weft.spark.session import own_session, running_session
from weft.spark.stream_frames import in_session

pytestmark = pytest.mark.spark

FOREIGN = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.literal.pickMinimumPrecision": "false",
    "spark.sql.legacy.negativeIndexInArrayInsert": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}
EXPRESSIONS = r"""SELECT date_format(ts, 'HH') AS h, 'a\nb' AS s, to_date('2024-3-01', 'yyyy-M-dd') AS d,
    CAST(v AS STRING) || 'x' AS V1, array(1, 2, 9) AS i, TIMESTAMP'2024-03-01 12:00:00' = ts AS t
    FROM a WHERE upper(name) = 'N' AND hour(ts) = 12"""


@pytest.fixture
def foreign(spark: SparkSession) -> Iterator[None]:
    """A context that was started with other settings: every new session begins with them."""
    conf: Any = spark.sparkContext._jsc.sc().conf()
    before = {key: conf.get(key, None) for key in FOREIGN}
    for key, value in FOREIGN.items():
        conf.set(key, value)
    yield
    for key, old in before.items():
        conf.set(key, old) if old is not None else conf.remove(key)


def settings(spark: SparkSession) -> dict[str, str]:
    return dict(spark.conf.getAll)


def test_a_session_that_is_there_is_used_and_left_alone(place: Place) -> None:
    before = settings(place.spark)
    active = SparkSession.getActiveSession()
    with weft.Engine(place.state, partitions=2) as engine:
        assert engine.spark.sparkContext is place.spark.sparkContext
        assert engine.spark is not place.spark
        place.streams(engine, "a")
        query = engine.create("SELECT upper(name) AS n FROM a WHERE upper(name) <> 'X'")
        place.put("a", (0, 1, 1, "n"))
        steps(engine)
        assert rows(query) == [("N",)]
        assert query.results().sparkSession is engine.spark
        assert rows(engine.create("SELECT upper(name) AS n FROM a")) == []
        assert settings(place.spark) == before
        assert SparkSession.getActiveSession() is active
        assert running_session() is place.spark
    assert settings(place.spark) == before
    assert place.spark.range(3).count() == 3


@pytest.mark.usefixtures("foreign")
def test_settings_of_a_context_do_not_change_rows(place: Place) -> None:
    own = own_session(place.spark)
    assert {key: own.conf.get(key) for key in PINNED} == PINNED
    assert own.conf.get("spark.sql.legacy.negativeIndexInArrayInsert") == "false"
    user = place.spark.newSession()
    before = settings(user)
    assert before["spark.sql.caseSensitive"] == "true"
    with weft.Engine(place.state, spark=user, partitions=2) as engine:
        place.streams(engine, "a")
        query = engine.create(EXPRESSIONS)
        place.put("a", (0, 1, 1, "n"))
        steps(engine)
        ((hour, text, day, joined, inserted, same),) = rows(query)
        assert (hour, text, str(day), joined, inserted, same) == ("12", "a\nb", "2024-03-01", "1x", [1, 2, 9], True)
    assert settings(user) == before


def test_a_stream_of_the_user_s_session_is_computed_in_weft_s(place: Place) -> None:
    user = place.spark.newSession()
    user.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    user.conf.set("spark.sql.ansi.enabled", "false")
    user.udf.register("twice", lambda v: 2 * v, "int")
    (place.root / "a").mkdir()
    frame = user.readStream.schema(DDL).parquet(str(place.root / "a"))
    frame = frame.selectExpr("ts", "k", "twice(v) AS v", "date_format(ts, 'HH') AS name")
    with weft.Engine(place.state, spark=user, partitions=2) as engine:
        engine.stream("a", frame, time="ts")
        query = engine.create("SELECT v, name, date_format(ts, 'HH') AS h FROM a WHERE hour(ts) = 12")
        place.put("a", (0, 1, 3))
        steps(engine)
        assert rows(query) == [(6, "21", "12")]


def test_the_same_frame_in_another_session(spark: SparkSession) -> None:
    own = own_session(spark)
    frame = in_session(spark.range(3), own)
    assert frame.sparkSession is own
    assert frame.selectExpr("'${spark.app.id}' AS x").distinct().collect() == [("${spark.app.id}",)]


@pytest.mark.parametrize("variable", ["env:PATH", "system:java.home", "spark.app.id", "spark.master"])
def test_queries_read_no_settings_and_no_environment(place: Place, variable: str) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    listed = engine.create(f"SELECT concat(name, '${{{variable}}}') AS x FROM a")
    chosen = engine.create(f"SELECT upper(name) AS x FROM a WHERE lower(name) = '${{{variable}}}'")
    literal = f"${{{variable}}}"
    place.put("a", (0, 1, 1, "n"), (1, 1, 1, literal.lower()))
    steps(engine)
    assert rows(listed) == [(each + literal,) for each in (literal.lower(), "n")]
    assert rows(chosen) == ([(literal.upper(),)] if literal == literal.lower() else [])


def test_what_is_no_session(place: Place) -> None:
    for wrong in ("local", object()):
        with pytest.raises(InvalidSetting, match="not a session"):
            weft.Engine(place.state, spark=wrong)
    with weft.Engine(place.state, spark=place.spark):
        pass  # nothing was left behind by the tries
