"""The oracle on cases small enough to be right by looking at them, and against the reference on random ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import note

from tests.support.by_seed import by_seed
from tests.support.generators.cases import alone, col, join, lit, row, schedule, select, self_join
from tests.support.generators.data import DECIMAL, from_micros
from tests.support.generators.features import Features
from tests.support.generators.workload import Sizes, draw_schedule
from tests.support.oracles.compare import compare_rows
from tests.support.oracles.oracle import Oracle
from tests.support.oracles.reference import reference_for
from tests.support.run import play
from tests.support.spec import (
    And,
    Arith,
    Between,
    Compare,
    In,
    Interval,
    IsNull,
    Length,
    Like,
    Not,
    Or,
    Predicate,
    Range,
    Sliding,
    Truth,
    Unbounded,
    Value,
    Window,
)
from weft.plan.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP


@by_seed(100)
def test_reference_agrees_with_oracle(seed: int) -> None:
    options = "--harness reference --rows 50 --no-aggregations"
    note(f"play it again: python -m tests.property.fuzz {options} --count 1 --seed {seed}")
    drawn = draw_schedule(seed, Sizes(rows=50, features=Features(aggregations=False)))
    play(drawn, reference_for(drawn), Path("in memory"))


def test_equal_seeds_give_equal_schedules() -> None:
    assert repr(draw_schedule(7, Sizes())) == repr(draw_schedule(7, Sizes()))


@pytest.mark.parametrize(
    ("first", "second", "distance", "meets"),
    [
        (Range(5), Range(5), 4, True),
        (Range(5), Range(5), 5, False),
        (Range(5), Range(5), -4, True),
        (Range(5), Range(5), -5, False),
        (Range(1), Range(1), 0, True),
        (Range(9), Range(2), -8, True),  # the left tuple is the older: its own range counts
        (Range(9), Range(2), -9, False),
        (Range(9), Range(2), 1, True),
        (Range(9), Range(2), 2, False),
        (Unbounded(), Range(2), -(10**8), True),
        (Unbounded(), Range(2), 2, False),
        (Unbounded(), Unbounded(), 10**8, True),
    ],
)
def test_ranges(first: Window, second: Window, distance: int, meets: bool) -> None:
    given_rows = schedule({"l": [row(distance, 1)], "r": [row(0, 2)]})
    assert alone(join(first, second), given_rows) == ([(1, 2)] if meets else [])


@pytest.mark.parametrize(("distance", "meets"), [(-4, False), (-3, True), (7, True), (8, False)])
def test_interval_condition_includes_both_ends(distance: int, meets: bool) -> None:
    query = replace(join(None, None), interval=Interval(-3, 7))
    assert alone(query, schedule({"l": [row(distance, 1)], "r": [row(0, 2)]})) == ([(1, 2)] if meets else [])


@pytest.mark.parametrize(
    ("window", "time", "starts"),
    [
        (Sliding(4, 4), 0, [0]),
        (Sliding(4, 4), 3, [0]),
        (Sliding(4, 4), 4, [4]),
        (Sliding(4, 4), -1, [-4]),
        (Sliding(4, 4), -4, [-4]),
        (Sliding(5, 2), 4, [0, 2, 4]),
        (Sliding(5, 2), 5, [2, 4]),
        (Sliding(5, 2), -1, [-4, -2]),
        (Sliding(2, 5), 1, [0]),
        (Sliding(2, 5), 2, []),
        (Sliding(2, 5), -5, [-5]),
    ],
)
def test_windows_of_one_row(window: Sliding, time: int, starts: list[int]) -> None:
    rows = alone(select(window, edges=True), schedule({"l": [row(time, 1)]}))
    want = [(1, from_micros(start), from_micros(start + window.size)) for start in starts]
    assert sorted(rows, key=str) == sorted(want, key=str)


def test_pair_is_in_the_windows_that_hold_both() -> None:
    given_rows = schedule({"l": [row(4, 1)], "r": [row(7, 2)]})
    assert alone(join(Sliding(8, 2), Sliding(8, 2)), given_rows) == [(1, 2)] * 3  # starts 0, 2, 4


def test_windows_that_begin_before_the_start_are_not_reported() -> None:
    given_rows = schedule({"l": [row(3, 1)]}, {"l": [row(4, 2), row(6, 3)]})
    assert alone(select(Sliding(4, 2), edges=True), given_rows, first=1) == [
        (2, from_micros(4), from_micros(8)),
        (3, from_micros(4), from_micros(8)),
        (3, from_micros(6), from_micros(10)),
    ]


def test_start_is_one_tick_after_all_that_was_seen() -> None:
    given_rows = schedule({"l": [row(5, 1)], "r": [row(9, 2)]}, {"l": [row(9, 3), row(10, 4)]})
    assert alone(select(), given_rows, first=1) == [(3,), (4,)]
    with Oracle(given_rows) as oracle:
        assert oracle.start(select(), 0) is None
        assert oracle.start(select(), 1) == from_micros(6)
        assert oracle.start(join(Range(1), Range(1)), 1) == from_micros(10)


def test_start_is_open_while_nothing_was_seen_on_its_own_streams() -> None:
    with Oracle(schedule({"r": [row(5, 1)], "l": [row(None, 2)]}, {"l": [row(1, 3)]})) as oracle:
        assert oracle.start(select(), 1) is None
        assert oracle.start(join(Range(1), Range(1)), 1) == from_micros(6)


def test_late_rows_are_those_below_the_watermark_of_the_batches_before() -> None:
    given_rows = schedule(
        {"l": [row(10, 1), row(0, 2)]}, {"l": [row(7, 3), row(6, 4), row(99, 5), row(8, 6)]}, lateness=3
    )
    assert alone(select(), given_rows) == [(1,), (2,), (3,), (5,), (6,)]


def test_a_late_row_of_one_stream_may_be_timely_in_another() -> None:
    given_rows = schedule({"l": [row(100, 1)]}, {"l": [row(1, 2)], "r": [row(1, 3)]}, lateness=0)
    assert alone(join(Unbounded(), Unbounded()), given_rows) == [(1, 3)]


def test_rows_without_event_time_are_no_rows() -> None:
    assert alone(select(), schedule({"l": [row(None, 1), row(1, 2)]})) == [(2,)]


def test_dropped_query_has_the_rows_of_batches_before() -> None:
    given_rows = schedule({"l": [row(1, 1)]}, {"r": [row(1, 2)]}, {"r": [row(1, 3)]})
    assert alone(join(Range(5), Range(5)), given_rows, end=2) == [(1, 2)]
    assert alone(join(Range(5), Range(5)), given_rows, end=1) == []


def test_duplicates_count() -> None:
    assert alone(join(Range(5), Range(5)), schedule({"l": [row(1, 1)] * 2, "r": [row(1, 2)] * 3})) == [(1, 2)] * 6


def test_self_join_pairs_every_row_also_with_itself() -> None:
    assert alone(self_join(Range(5)), schedule({"l": [row(1, 1), row(2, 2)]})) == [(1, 1), (1, 2), (2, 1), (2, 2)]


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "left", "right", "meets"),
    [
        ("k", None, None, False),
        ("k", 2**63 - 1, 2**63 - 1, True),
        ("k", 2**53, 2**53 + 1, False),
        ("s", "", "", True),
        ("s", "", None, False),
        ("s", "a", "a ", False),
        ("s", "a", "A", False),
        ("x", NAN, NAN, True),
        ("x", 0.0, -0.0, True),
        ("x", NAN, None, False),
        ("d", Decimal("1.10"), Decimal("1.1"), True),
        ("b", False, False, True),
        ("b", False, None, False),
    ],
)
def test_keys(name: str, left: Value, right: Value, meets: bool) -> None:
    given_rows = schedule({"l": [row(1, 1, **{name: left})], "r": [row(1, 2, **{name: right})]})
    query = join(Range(5), Range(5), on=(col(0, name), col(1, name)))
    assert alone(query, given_rows) == ([(1, 2)] if meets else [])


def test_keys_of_several_number_types_meet() -> None:
    one: dict[str, Value] = {"k": 1, "i": 1, "d": Decimal(1), "x": 1.0}
    given_rows = schedule({"l": [row(1, 1, **one)], "r": [row(1, 2, **one), row(1, 3, d=Decimal("1.01"))]})
    for left in one:
        for right in one:
            assert alone(join(Range(5), Range(5), on=(col(0, left), col(1, right))), given_rows) == [(1, 2)]


def test_remainder_has_the_sign_of_the_dividend() -> None:
    given_rows = schedule({"l": [row(1, 1, k=-7), row(1, 2, k=7)], "r": [row(1, 3, k=-1), row(1, 4, k=1)]})
    query = join(Range(5), Range(5), on=(Arith("%", col(0, "k"), lit(3, INT)), col(1, "k")))
    assert alone(query, given_rows) == [(1, 3), (2, 4)]


K, S, X, B = col(0, "k"), col(0, "s"), col(0, "x"), col(0, "b")


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        (Compare("<", K, lit(1, BIGINT)), [1]),
        (Not(Compare("<", K, lit(1, BIGINT))), [3]),
        (Compare("<=>", K, lit(0, BIGINT)), [1]),
        (Not(Compare("<=>", K, lit(0, BIGINT))), [2, 3]),
        (In(K, (lit(0, BIGINT), lit(None, BIGINT)), negated=False), [1]),
        (In(K, (lit(0, BIGINT), lit(None, BIGINT)), negated=True), []),
        (In(K, (lit(0, BIGINT),), negated=True), [3]),
        (Between(K, lit(0, BIGINT), lit(5, BIGINT)), [1, 3]),
        (Between(K, lit(5, BIGINT), lit(0, BIGINT)), []),
        (IsNull(K, negated=False), [2]),
        (IsNull(K, negated=True), [1, 3]),
        (Compare("<", K, col(0, "n")), [1]),
        (Like(S, "a_c", negated=False), [2]),
        (Like(S, "a%", negated=True), [1]),
        (Like(S, "", negated=False), [1]),
        (Compare("=", Length(S), lit(3, INT)), [2]),
        (Compare("=", S, lit("it's", STRING)), []),
        (Compare(">", X, lit(float("inf"), DOUBLE)), [2]),
        (Compare("=", X, lit(NAN, DOUBLE)), [2]),
        (Truth(B), [2]),
        (Or((Compare("=", K, lit(5, BIGINT)), Truth(B))), [2, 3]),
        (And((Not(Compare("=", K, lit(5, BIGINT))), Not(Truth(B)))), [1]),
        (Compare(">=", col(0, "ts"), lit(from_micros(2), TIMESTAMP)), [2, 3]),
        (Compare("<=", col(0, "d"), lit(Decimal("0.00"), DECIMAL)), [1, 2]),
    ],
)
def test_predicates(predicate: Predicate, holds: list[int]) -> None:
    rows = [
        row(1, 1),
        row(2, 2, k=None, s="a𝄞c", x=NAN, b=True),
        row(3, 3, k=5, s=None, x=None, b=None, d=Decimal("0.01")),
    ]
    assert alone(select(None, predicate), schedule({"l": rows})) == [(n,) for n in holds]


def test_two_oracles_do_not_disturb_each_other() -> None:
    with Oracle(schedule({"l": [row(1, 1)]})):
        assert alone(select(), schedule({"l": [row(1, 2)]})) == [(2,)]


def test_difference_names_rows_missing_and_too_many() -> None:
    text = compare_rows(select(), got=[(1,), (1,), (2,)], want=[(1,), (3,)])
    assert text.splitlines() == [
        "3 rows, must be 2: 1 missing, 2 too many",
        "  missing: 1 × (3)",
        "  too many: 1 × (1)",
        "  too many: 1 × (2)",
    ]
    assert compare_rows(select(), got=[(1,), (2,)], want=[(2,), (1,)]) == ""


def test_difference_sees_classes() -> None:
    query = replace(select(), outputs=(col(0, "x"), col(0, "ts")))
    instant = datetime(2024, 1, 1, tzinfo=UTC)
    assert compare_rows(query, got=[(NAN, instant)], want=[(NAN, instant)]) == ""
    assert "is a int" in compare_rows(query, got=[(1, instant)], want=[(1.0, instant)])
    naive = instant.replace(tzinfo=None)
    assert "no time zone" in compare_rows(query, got=[(1.0, naive)], want=[(1.0, instant)])
    assert "must have 2" in compare_rows(query, got=[(1.0,)], want=[(1.0, instant)])
    assert "1 missing" in compare_rows(query, got=[(1.0, instant + timedelta(microseconds=1))], want=[(1.0, instant)])
