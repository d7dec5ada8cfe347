"""Predicates, keys and projections on real Spark: its results, its types, and failures that stay with their query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tests.spark.support import DDL, Place, alone, at, events, ordered, put, rows, steps, within
from weft import Engine, WeftError

pytestmark = pytest.mark.spark

DATA = events(
    (0, 1, 10, "A"), (1, 2, -20, "b"), (2, 3, None, "a"), (3, None, 40, None), (4, 5, 0, ""), (5, -6, 7, "日本 A"),
)  # fmt: skip

PROJECTIONS = [
    "v + 1 AS a, v / 3 AS b, v % 7 AS c, -v AS d, k * v AS e",
    "upper(name) AS a, concat(name, '-', cast(k AS string)) AS b, substring(name, 1, 1) AS c, length(name) AS d",
    "ts + INTERVAL 1 DAY AS a, cast(ts AS date) AS b, date_format(ts, 'yyyy-MM-dd HH:mm:ss') AS c, hour(ts) AS d",
    "CASE WHEN v > 5 THEN 'big' WHEN v IS NULL THEN NULL ELSE 'small' END AS a, coalesce(name, '?') AS b",
    "cast(v AS decimal(12,3)) AS a, cast(k AS double) AS b, cast(v AS smallint) AS c, k = 3 AS d, NULL AS e",
    "1 AS one, 'x' AS x, 2.50 AS d, true AS t",
    "array(k, v) AS a, struct(k, name) AS s, map('k', k) AS m",
    "*",
    "`name` AS `na me`, v AS `a.b`",
    "round(v / 7.0, 2) AS r, greatest(k, v) AS g, nullif(v, 0) AS n, if(v > 0, k, v) AS i, abs(v) AS p",
]

OPAQUE = [
    "upper(name) = 'A'",
    "name RLIKE '^[ab]$'",
    "length(trim(name)) > 0",
    "regexp_replace(name, '[^A]', '') = 'A'",
    "coalesce(nullif(v, 0), -1) < 0",
    "date_format(ts, 's') IN ('1', '3')",
    "array_contains(array(1, 2, 5), cast(k AS int))",
    "hash(k) % 2 = 0 OR v IS NULL",
]


def _frame_stream(place: Place, engine: Engine, name: str) -> None:
    (place.root / name).mkdir(exist_ok=True)
    frame = place.spark.readStream.schema(DDL).parquet(str(place.root / name))
    engine.stream(name, frame, time="ts", lateness="1 hour")


def test_projections_are_sparks(place: Place) -> None:
    engine = place.engine()
    put(place.root / "a", DATA)
    place.streams(engine, "a")
    queries = engine.create_many([f"SELECT {text} FROM a" for text in PROJECTIONS])
    steps(engine)
    place.spark.createDataFrame(DATA).createOrReplaceTempView("all_of_a")
    for text, query in zip(PROJECTIONS, queries, strict=True):
        expected = place.spark.sql(f"SELECT {text} FROM all_of_a")
        found = query.results()
        types = [(field.name, field.dataType) for field in found.schema]
        assert types == [(field.name, field.dataType) for field in expected.schema], text
        assert ordered(found.collect()) == ordered(expected.collect()), text
        assert ordered(query.tail()) == ordered(zip(*_columns(expected.toArrow()), strict=True)), text


def _columns(table: pa.Table) -> list[list[object]]:
    return [column.to_pylist() for column in table.columns]


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_predicates_only_spark_knows(place: Place, kind: str) -> None:
    engine = place.engine()
    put(place.root / "a", DATA)
    put(place.root / "b", DATA)
    if kind == "files":
        place.streams(engine, "a", "b", lateness="1 hour")
    else:
        _frame_stream(place, engine, "a")
        _frame_stream(place, engine, "b")
    queries = engine.create_many([f"SELECT k, v FROM a WHERE {text}" for text in OPAQUE])
    mixed = engine.create("SELECT k FROM a WHERE upper(name) = 'A' AND v > 5 AND NOT name LIKE '%b%'")
    join = engine.create(
        "SELECT x.name, y.name AS other FROM a [RANGE 10 SECONDS] x JOIN b [RANGE 10 SECONDS] y "
        "ON lower(x.name) = lower(y.name) WHERE x.name RLIKE 'a|A'"
    )
    sums = engine.create(JOIN.format("cast(length(trim(x.name)) + 1 AS bigint) = y.k AND x.k = y.k"))
    steps(engine)
    place.spark.createDataFrame(DATA).createOrReplaceTempView("all_of_a")
    for text, query in zip(OPAQUE, queries, strict=True):
        expected = place.spark.sql(f"SELECT k, v FROM all_of_a WHERE {text}").collect()
        assert rows(query) == ordered(expected), text
        assert expected, f"{text} selects nothing: the test says nothing"
    assert rows(mixed) == [(1,)]
    assert rows(sums) == [(2,)]
    assert rows(join) == [("A", "A"), ("A", "a"), ("a", "A"), ("a", "a"), ("日本 A", "日本 A")]


@pytest.mark.parametrize("text", OPAQUE)
def test_a_predicate_that_is_another_querys_key_is_computed_on_every_row(place: Place, text: str) -> None:
    """As it was: Spark computed the key only on rows that its own query wants, and the other query lost rows."""
    engine = place.engine()
    put(place.root / "a", DATA)
    place.streams(engine, "a")
    grouped = f"SELECT {text} AS chosen, COUNT(*) AS n FROM a [TUMBLE 10 SECONDS] WHERE v > 1000 GROUP BY {text}"
    _, selected = engine.create_many([grouped, f"SELECT k, v FROM a WHERE {text}"])
    steps(engine)
    place.spark.createDataFrame(DATA).createOrReplaceTempView("all_of_a")
    expected = place.spark.sql(f"SELECT k, v FROM all_of_a WHERE {text}").collect()
    assert rows(selected) == ordered(expected)
    assert expected


JOIN = "SELECT x.k FROM a [RANGE 5 SECONDS] x JOIN b [RANGE 5 SECONDS] y ON {}"
FAILING = {
    "own predicate": "SELECT k FROM a WHERE 10 / v > 1",
    "own predicate after others": "SELECT k FROM a WHERE name = '' AND 10 / v > 1",
    "Spark's predicate": "SELECT k FROM a WHERE cast(trim(name) AS int) = 3",
    "own key": JOIN.format("10 / x.v = y.k"),
    "Spark's key": JOIN.format("cast(trim(x.name) AS bigint) = y.k"),
}


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_a_failing_expression_takes_only_its_query(place: Place, kind: str) -> None:
    engine = place.engine()
    if kind == "files":
        place.streams(engine, "a", "b", lateness="1 hour")
    else:
        _frame_stream(place, engine, "a")
        _frame_stream(place, engine, "b")
    failing = engine.create_many([(name.replace(" ", "_").replace("'", ""), sql) for name, sql in FAILING.items()])
    plain = engine.create("SELECT k FROM a WHERE v > 5")
    opaque = engine.create("SELECT k FROM a WHERE upper(name) = 'A'")
    join = "SELECT x.k, y.v FROM a [RANGE 5 SECONDS] x JOIN b [RANGE 5 SECONDS] y ON x.k = y.k"
    joined = engine.create(join)
    first = place.put("a", (0, 1, 1, "5"), (1, 1, 6, "7"))
    other = place.put("b", (0, 1, 1, "1"), (2, 5, 2, "2"))
    assert [summary.failed for summary in steps(engine)] == [()]
    put(place.root / "a", DATA)
    summaries = steps(engine)
    assert [query.state for query in failing] == ["failed"] * len(failing)
    assert all(query.error for query in failing)
    assert summaries[-1].queries == 3
    with pytest.raises(WeftError) as failed:
        list(failing[0].tail())
    assert failed.value.code == "query_failed"
    assert "failed" in failing[0].explain()
    whole = {"a": [first, DATA], "b": other}
    assert rows(plain) == alone(whole, "SELECT k FROM a WHERE v > 5")
    assert rows(opaque) == alone(whole, "SELECT k FROM a WHERE upper(name) = 'A'")
    expected = alone(whole, f"SELECT a.k, b.v FROM a JOIN b ON a.k = b.k AND {within('a', 'b', 5)}")
    assert rows(joined) == expected
    again = engine.create("SELECT k FROM a WHERE 10 / v > 1 AND v > 0", name="own_predicate")
    assert again.state == "live"


def test_rows_nobody_asks_for_cannot_fail_a_query(place: Place) -> None:
    """Late rows, and rows that a key's own predicate leaves out, are not computed."""
    engine = place.engine()
    place.streams(engine, "a", "b")
    late = engine.create("SELECT k FROM a WHERE 10 / v > 1")
    spark_late = engine.create("SELECT k FROM a WHERE cast(name AS int) = 3 OR length(trim(name)) = 9")
    guarded = engine.create(JOIN.format("100 DIV x.v = y.k") + " WHERE x.v > 0")
    spark_key = JOIN.format("cast(trim(x.name) AS bigint) = y.v")
    spark_guarded = engine.create(spark_key + " WHERE x.v > 0")
    careless = [engine.create(JOIN.format("100 DIV x.v = y.k")), engine.create(spark_key + " WHERE x.k < 4")]
    place.put("a", (10, 1, 5, "3"))
    place.put("b", (10, 20, 3, ""))
    steps(engine)
    place.put("a", (1, 1, 0, "x"), (11, 2, 5, "4"))
    assert steps(engine)[-1].late == 1
    assert [query.state for query in (late, spark_late, guarded, spark_guarded)] == ["live"] * 4
    assert rows(late) == [(1,), (2,)]
    assert rows(spark_late) == [(1,)]
    late.drop()
    spark_late.drop()
    place.put("a", (12, 3, 0, "y"), (12, 4, 20, "3 "))
    steps(engine)
    assert [query.state for query in (guarded, spark_guarded)] == ["live"] * 2
    assert [query.state for query in careless] == ["failed"] * 2  # they share keys and stores with the careful ones
    assert rows(guarded) == [(1,), (2,)]
    assert rows(spark_guarded) == [(1,), (4,)]


def test_a_row_too_far_ahead_cannot_fail_a_query(place: Place) -> None:
    """What `max_ahead` sets aside is not computed either: neither for predicates nor for keys that Spark evaluates."""
    engine = place.engine()
    place.streams(engine, "a", "b")
    predicate = engine.create("SELECT k FROM a WHERE 10 / (length(upper(name)) - 1) > 0")
    key = engine.create(JOIN.format("cast(trim(x.name) AS bigint) = y.v"))
    ten_years = (datetime.now(UTC) - at(0) + timedelta(days=3650)).total_seconds()
    place.put("a", (1, 1, 5, "33"), (ten_years, 2, 5, "x"))
    place.put("b", (1, 20, 33, ""))
    assert steps(engine)[-1].ahead == 1
    assert [query.state for query in (predicate, key)] == ["live"] * 2
    assert rows(predicate) == [(1,)]
    assert rows(key) == [(1,)]


def test_a_projection_that_fails_is_its_own_query_s_trouble(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    bad = engine.create("SELECT 10 / v AS x FROM a", name="bad")
    good = engine.create("SELECT 10 / v AS x FROM a WHERE v <> 0")
    place.put("a", (0, 1, 0), (1, 1, 5))
    steps(engine)
    assert rows(good) == [(2.0,)]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        rows(bad)
    place.put("a", (2, 1, 1))
    steps(engine)
    assert rows(good) == [(10.0,), (2.0,)]


def test_a_pattern_that_reads_too_far_ends_its_own_query(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    filtering = engine.create("SELECT v FROM a WHERE regexp_count(name, 'x.*y|x') > 1")
    selecting = engine.create("SELECT regexp_replace(name, 'x.*y|x', '') AS n FROM a")
    other = engine.create("SELECT v FROM a WHERE regexp_count(name, 'x|y') > 1")
    place.put("a", (0, 1, 1, "x" * 100_000), (1, 1, 2, "xx"))
    steps(engine)
    assert [filtering.state, other.state] == ["failed", "live"]
    assert rows(other) == [(1,), (2,)]
    assert "more than 1000 matches in a text of 100000 bytes" in filtering.explain()
    with pytest.raises(WeftError, match="more than 1000 matches") as failed:
        list(selecting.rows(0, skip=0, limit=10))
    assert failed.value.code == "query_failed"


@pytest.mark.parametrize(
    "text",
    ["upper(name, name)", "sha2(name)", "ts + INTERVAL 'abc' DAY", "MAX(upper(name, name))", "upper(MAX(name), 1)"],
)
def test_what_spark_does_not_take_is_refused_when_it_is_created(place: Place, text: str) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    with pytest.raises(WeftError) as refused:
        engine.create(f"SELECT {text} AS x FROM a" + (" [TUMBLE 5 SECONDS]" if "MAX" in text else ""))
    assert refused.value.code == "type_mismatch"


def test_an_interval_of_months_is_refused_when_it_is_created(place: Place) -> None:
    engine = place.engine()
    (place.root / "a").mkdir()
    frame = place.spark.readStream.schema(DDL).parquet(str(place.root / "a"))
    months = frame.selectExpr("*", "make_ym_interval(0, v) AS i", "make_dt_interval(0, 0, 0, v) AS d")
    engine.stream("a", months, time="ts", lateness="1 hour")
    for sql in ("SELECT i FROM a", "SELECT k FROM a WHERE i > INTERVAL '1' MONTH", "SELECT d FROM a"):
        with pytest.raises(WeftError, match=r'column "[id]" of stream "a" has type interval') as refused:
            engine.create(sql)
        assert refused.value.code == "unsupported_query"
    query = engine.create("SELECT k FROM a WHERE d > INTERVAL '1' SECOND")
    place.put("a", (0, 1, 1, "x"), (1, 2, 2, "y"))
    steps(engine)
    assert rows(query) == [(2,)]
