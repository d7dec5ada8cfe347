"""Specs as weft's SQL text."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from tests.support.generators.cases import PLAIN, aggregate, call, col, join, lit, select, self_join
from tests.support.generators.data import DECIMAL, from_micros
from tests.support.generators.features import Features
from tests.support.generators.workload import Create, Sizes, draw_schedule
from tests.support.spec import (
    Arith,
    Compare,
    Having,
    In,
    Interval,
    Key,
    Like,
    Not,
    Or,
    Product,
    QuerySpec,
    Range,
    Session,
    Sliding,
    Truth,
    Unbounded,
    Value,
    Window,
)
from tests.support.text import duration_sql, spark_literal, weft_sql
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType
from weft.sql import bind

SECOND = 1_000_000


def test_selection() -> None:
    predicate = Or((In(col(0, "k"), (lit(1, BIGINT), lit(None, BIGINT)), negated=True), Not(Truth(col(0, "b")))))
    query = replace(
        select(Sliding(8 * SECOND, 4 * SECOND), predicate, edges=True), style=replace(PLAIN, unqualified=True)
    )
    assert weft_sql(query) == (
        "SELECT n, window_start, window_end FROM l [RANGE 8 SECONDS SLIDE 4 SECONDS] "
        "WHERE ((k NOT IN (1, NULL)) OR (NOT b))"
    )


def test_join_with_two_keys_and_predicates_in_on() -> None:
    query = join(Range(SECOND), Unbounded())
    first, second = query.relations
    like = Like(col(1, "s"), "it's%", negated=False)
    query = replace(
        query,
        relations=(
            replace(first, predicate=Compare("<=>", col(0, "k"), lit(3, BIGINT))),
            replace(second, predicate=like),
        ),
        keys=(*query.keys, Key(col(0, "i"), col(1, "k"), swapped=True)),
        style=replace(PLAIN, predicates_in_on=True),
    )
    assert weft_sql(query) == (
        "SELECT l.n AS out0, r.n AS out1 FROM l [RANGE 1 SECOND] JOIN r [UNBOUNDED] "
        "ON l.k = r.k AND r.k = l.i AND (l.k <=> 3) AND (r.s LIKE 'it\\'s%')"
    )


X, K = col(0, "x"), col(0, "k")
EIGHT, FOUR = 8 * SECOND, 4 * SECOND


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            aggregate(Sliding(EIGHT, FOUR), by=(K, Arith("%", col(0, "i"), lit(3, INT)))),
            "SELECT l.k, (l.i % 3), COUNT(*), window_start, window_end FROM l [RANGE 8 SECONDS SLIDE 4 SECONDS] "
            "GROUP BY l.k, (l.i % 3)",
        ),
        (
            aggregate(Sliding(FOUR, FOUR), call("distinct", K), call("approx_distinct", K), call("stddev", X, DOUBLE)),
            "SELECT COUNT(DISTINCT l.k), approx_count_distinct(l.k), STDDEV(l.x), window_start, window_end "
            "FROM l [TUMBLE 4 SECONDS]",
        ),
        (
            aggregate(Session(FOUR), having=Having(call("max", K), "<=>", lit(3, BIGINT))),
            "SELECT COUNT(*), window_start, window_end FROM l [SESSION 4 SECONDS] HAVING MAX(l.k) <=> 3",
        ),
        (
            aggregate(Session(FOUR), call("sum", Product(X, col(1, "x")), DOUBLE), by=(col(1, "k"),), joined=True),
            "SELECT r.k, SUM(l.x * r.x), window_start, window_end "
            "FROM l [SESSION 4 SECONDS] JOIN r [SESSION 4 SECONDS] ON l.k = r.k GROUP BY r.k",
        ),
        (
            aggregate(Sliding(FOUR, FOUR), call("count", K), call("count", K)),
            "SELECT COUNT(l.k) AS out0, COUNT(l.k) AS out1, window_start, window_end FROM l [TUMBLE 4 SECONDS]",
        ),
    ],
)
def test_aggregations(query: QuerySpec, text: str) -> None:
    assert weft_sql(query) == text


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Sliding(EIGHT, FOUR), "window(ts, '8 seconds', '4 seconds')"),
        (Sliding(FOUR, FOUR), "window(ts, '4 seconds')"),
        (Session(1), "session_window(ts, '1 microsecond')"),
    ],
)
def test_windows_in_group_by(window: Window, text: str) -> None:
    query = aggregate(window, by=(K,))
    assert query.grouping is not None
    query = replace(query, grouping=replace(query.grouping, in_group_by=True), style=replace(PLAIN, unqualified=True))
    assert weft_sql(query) == f"SELECT k, COUNT(*), window_start, window_end FROM l GROUP BY k, {text}"


def test_every_drawn_query_is_one_and_has_the_types_it_says() -> None:
    for seed in range(40):
        drawn = draw_schedule(seed, Sizes(rows=10, features=Features(aggregations=True)))
        streams = {stream.name: stream for stream in drawn.streams}
        for query in (query for step in drawn.steps if isinstance(step, Create) for query in step.queries):
            bound = bind(weft_sql(query), streams)
            assert (bound.aggregation is None, bound.session is None) == (query.grouping is None, query.session is None)
            types = [output.type for output in bound.outputs]
            assert types == [query.type_of_output(output) for output in query.outputs], weft_sql(query)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(-SECOND, 1), "l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 MICROSECOND"),
        (Interval(None, 0), "l.ts <= r.ts"),
        (Interval(2000, None), "l.ts >= r.ts + INTERVAL 2 MILLISECONDS"),
    ],
)
def test_interval_conditions(interval: Interval, text: str) -> None:
    assert weft_sql(replace(join(None, None), interval=interval)).endswith(f"FROM l JOIN r ON l.k = r.k AND {text}")


def test_self_join_and_star() -> None:
    query = replace(self_join(Sliding(SECOND, SECOND)), style=replace(PLAIN, star=True))
    assert weft_sql(query) == "SELECT * FROM l [TUMBLE 1 SECOND] AS x JOIN l [TUMBLE 1 SECOND] AS y ON x.k = y.k"


@pytest.mark.parametrize(
    ("micros", "text"),
    [(1, "1 MICROSECOND"), (1500, "1500 MICROSECONDS"), (60 * SECOND, "1 MINUTE"), (7200 * SECOND, "2 HOURS")],
)
def test_durations(micros: int, text: str) -> None:
    assert duration_sql(micros) == text


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (None, BIGINT, "NULL"),
        (True, BOOLEAN, "TRUE"),
        (-5, BIGINT, "-5"),
        (Decimal("-1.50"), DECIMAL, "-1.50"),
        (1.5, DOUBLE, "1.5D"),
        (float("-inf"), DOUBLE, "CAST('-Infinity' AS DOUBLE)"),
        ("back\\slash's", STRING, "'back\\\\slash\\'s'"),
        (date(2024, 2, 29), DATE, "DATE'2024-02-29'"),
        (from_micros(-1), TIMESTAMP, "TIMESTAMP'1969-12-31 23:59:59.999999+00:00'"),
    ],
)
def test_literals(value: Value, type_: DataType, text: str) -> None:
    assert spark_literal(lit(value, type_)) == text
