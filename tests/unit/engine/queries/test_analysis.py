"""What the engine refuses although it binds."""

from __future__ import annotations

import pytest

from tests.support.engine_sample import DDL, JOIN, STREAMS, WINDOW, stream
from weft.engine.queries import analysis
from weft.engine.queries.analysis import check_types
from weft.errors import TypeMismatch, UnsupportedQuery
from weft.sql import bind


def no_spark() -> None:
    """Stand for a session that is asked for and not used."""


THREE = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q USING (k) JOIN c {WINDOW} r USING (k)"
THETA = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k AND p.x < q.x"
TIMES = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.ts < q.ts"


def counted(sql: str, select: str = "COUNT(*)", window: str = "[TUMBLE 10 SECONDS]") -> str:
    """The join as an aggregation."""
    return sql.replace("SELECT p.x", f"SELECT {select}").replace(WINDOW, window)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        (counted(THREE, "MAX(upper(p.s))"), r"upper\(`s`\)\) is computed by Spark .* over joins of 3 relations"),
        (counted(THETA, "COUNT(*)") + " GROUP BY upper(q.s)", "is computed by Spark .* over joins by other conditions"),
    ],
)
def test_what_has_no_operator_is_refused(sql: str, what: str) -> None:
    with pytest.raises(UnsupportedQuery, match=what) as caught:
        check_types(bind(sql, STREAMS), STREAMS, no_spark)
    assert caught.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        JOIN, JOIN + " AND p.ts < q.ts", "SELECT x FROM a WHERE x > 1", THREE, THETA, TIMES,
        counted(THREE, "q.k, SUM(p.x * r.x), MIN(q.s)") + " GROUP BY q.k",
        counted(THETA, window="[RANGE 10 SECONDS SLIDE 5 SECONDS]"),
        counted(THREE, window="[SESSION 5 SECONDS]"), THETA.replace(WINDOW, "[SESSION 5 SECONDS]"),
    ],
)  # fmt: skip
def test_what_can_be_run_passes_without_spark(sql: str) -> None:
    query = bind(sql, STREAMS)
    assert check_types(query, STREAMS, no_spark) is query


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], list[str]]]:
    """What Spark is asked: names of columns, and texts; it answers that all is boolean."""
    found: list[tuple[list[str], list[str]]] = []

    def types(spark: object, fields: list[tuple[str, str]], texts: list[str]) -> list[str]:
        found.append(([name for name, _ in fields], texts))
        return ["boolean" for _ in texts]

    monkeypatch.setattr(analysis, "expression_types", types)
    return found


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("SELECT upper(s, s) AS u, x FROM a", ["upper(`0.s`, `0.s`)"]),
        ("SELECT ts + INTERVAL 'abc' DAY AS t FROM a WHERE sha2(s) = 'a'", ["sha2(`s`) = 'a'", "`0.ts` + INTERVAL"]),
        ("SELECT upper(MAX(lower(s))) AS m FROM a [TUMBLE 5 SECONDS] GROUP BY trim(s) HAVING lower(MAX(s)) = 'a'",
         ["lower(`a1`) = 'a'", "TRIM(`s`)", "lower(`s`)", "upper(`a0`)"]),
    ],
)  # fmt: skip
def test_one_question_has_all_that_spark_computes(
    asked: list[tuple[list[str], list[str]]], sql: str, texts: list[str]
) -> None:
    check_types(bind(sql, STREAMS), STREAMS, no_spark)
    ((_, found),) = asked
    assert [text.startswith(wanted) for text, wanted in zip(found, texts, strict=True)] == [True] * len(texts), found


def test_relations_with_the_same_columns_are_asked_about_apart(asked: list[tuple[list[str], list[str]]]) -> None:
    join = f"SELECT upper(p.s) AS u FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k"
    sql = f"{join} WHERE lower(p.s) = 'a' AND trim(q.s) = 'b'"
    check_types(bind(sql, STREAMS), STREAMS, no_spark)
    assert [names for names, _ in asked] == [["s"], ["s", "0.s"]]


def test_a_condition_that_is_not_boolean_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "expression_types", lambda spark, fields, texts: ["int"] * len(texts))
    with pytest.raises(TypeMismatch, match=r'predicate element_at\(.*\) on stream "a" has type int, not boolean'):
        check_types(bind("SELECT x FROM a WHERE element_at(split(s, ','), 1)", STREAMS), STREAMS, no_spark)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i FROM a", "SELECT * FROM a", "SELECT CAST(i AS STRING) AS t FROM a", "SELECT x FROM a WHERE i IS NULL",
        "SELECT CAST(i AS STRING) AS t, COUNT(*) AS n FROM a [TUMBLE 5 SECONDS] GROUP BY CAST(i AS STRING)",
        f"SELECT p.i FROM b {WINDOW} q JOIN a {WINDOW} p ON p.k = q.k",
    ],
)  # fmt: skip
def test_a_column_that_arrow_cannot_carry_is_refused(sql: str) -> None:
    streams = {**STREAMS, "a": stream("a", ddl=f"{DDL}, i interval year to month")}
    with pytest.raises(UnsupportedQuery, match='column "i" of stream "a" has type interval year to month') as caught:
        check_types(bind(sql, streams), streams, no_spark)
    assert caught.value.hint
    assert check_types(bind("SELECT x, s FROM a WHERE k > 1", streams), streams, no_spark)


def test_a_length_of_time_is_for_spark_only(asked: list[tuple[list[str], list[str]]]) -> None:
    """Arrow has a form for it that Spark knows, and weft does not keep."""
    streams = {**STREAMS, "a": stream("a", ddl=f"{DDL}, d interval day to second")}
    assert check_types(bind("SELECT x FROM a WHERE d > INTERVAL '1' SECOND", streams), streams, no_spark)
    assert asked[0][0] == ["d"]
    with pytest.raises(UnsupportedQuery, match='column "d" of stream "a" has type interval day to second'):
        check_types(bind("SELECT d FROM a", streams), streams, no_spark)
