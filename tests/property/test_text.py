"""Specs as weft's SQL text."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from tests.property.cases import PLAIN, col, join, lit, select, self_join
from tests.property.data import DECIMAL, from_micros
from tests.property.spec import Compare, In, Interval, Key, Like, Not, Or, Range, Sliding, Truth, Unbounded, Value
from tests.property.text import duration_sql, spark_literal, weft_sql
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, DataType

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
