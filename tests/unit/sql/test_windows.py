"""Windows on relations, time conditions, and how they fit together."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sql_streams import bound, join, keys
from weft.errors import InvalidWindow, MissingWindow
from weft.plan.expression import to_sql
from weft.plan.window import Range, Session, Sliding, Unbounded, Window, window_text
from weft.sql.syntax.window_clause import parse_window

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("[RANGE 8 SECONDS SLIDE 4 SECONDS]", Sliding(8 * SECOND, 4 * SECOND)),
        ("[range 8 second slide 4 second]", Sliding(8 * SECOND, 4 * SECOND)),
        ("[TUMBLE 5 SECONDS]", Sliding(5 * SECOND, 5 * SECOND)),
        ("[RANGE 10 SECONDS]", Range(10 * SECOND)),
        ("[UNBOUNDED]", Unbounded()),
        ("[ unbounded ]", Unbounded()),
        ("[RANGE 0.5 SECONDS]", Range(SECOND / 2)),
        ("[RANGE 250 MS]", Range(SECOND / 4)),
        ("[RANGE 7 MICROSECONDS]", Range(timedelta(microseconds=7))),
        ("[RANGE 5s]", Range(5 * SECOND)),
        ("[RANGE 2D]", Range(timedelta(days=2))),
        ("[RANGE 1 MINUTE 30 SECONDS SLIDE 1 MINUTE]", Sliding(90 * SECOND, 60 * SECOND)),
        ("[RANGE '10 seconds']", Range(10 * SECOND)),
        ("[RANGE INTERVAL '10 seconds' SLIDE INTERVAL 2 SECONDS]", Sliding(10 * SECOND, 2 * SECOND)),
        ("[RANGE 1 DAY /* long */]", Range(timedelta(days=1))),
        ("[\n  TUMBLE\n  1 HOUR\n]", Sliding(timedelta(hours=1), timedelta(hours=1))),
    ],
)
def test_windows(text: str, window: Window) -> None:
    query = bound(f"SELECT ts FROM purchases {text} AS p")
    assert query.relations[0].window == window
    assert query.sliding == (window if isinstance(window, Sliding) else None)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("SESSION 5 SECONDS", Session(5 * SECOND)),
        ("session 5 minutes max 1 hour", Session(300 * SECOND, 3600 * SECOND)),
        ("SESSION INTERVAL '5 seconds' MAX '5 seconds'", Session(5 * SECOND, 5 * SECOND)),
    ],
)
def test_sessions_and_how_long_they_may_be(text: str, window: Session) -> None:
    query = bound(f"SELECT count(*) AS n FROM purchases [{text}] GROUP BY userID")
    assert query.session == window
    assert parse_window(window_text(window)[1:-1], relation="r", position="1") == window


def test_each_relation_has_its_own_window() -> None:
    query = join("p.userID = a.userID", "[RANGE 3 SECONDS]", "[RANGE 7 SECONDS]")
    assert [relation.window for relation in query.relations] == [Range(3 * SECOND), Range(7 * SECOND)]
    assert (query.bounds.low, query.bounds.high) == (-2_999_999, 6_999_999)


def test_unbounded_mixes_with_range() -> None:
    query = join("p.userID = a.userID", "[UNBOUNDED]", "[RANGE 7 SECONDS]")
    assert (query.bounds.low, query.bounds.high) == (None, 6_999_999)


def test_sliding_windows_must_be_equal() -> None:
    assert join("p.userID = a.userID", "[TUMBLE 5 s]", "[RANGE 5 s SLIDE 5 s]").sliding == Sliding(
        5 * SECOND, 5 * SECOND
    )
    with pytest.raises(InvalidWindow) as caught:
        join("p.userID = a.userID", "[TUMBLE 5 s]", "[UNBOUNDED]")
    assert caught.value.detail == '"p" has [TUMBLE 5 SECONDS], "a" has [UNBOUNDED].'
    with pytest.raises(MissingWindow, match='"a"'):
        join("p.userID = a.userID", "[TUMBLE 5 s]", "")
    with pytest.raises(InvalidWindow, match='"p" and "a"'):
        join("p.userID = a.userID AND p.ts <= a.ts + INTERVAL 1 SECOND", "[TUMBLE 5 s]", "")


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ("a.ts BETWEEN p.ts AND p.ts + INTERVAL 10 SECONDS", -10_000_000, 0),
        ("p.ts BETWEEN a.ts - INTERVAL '1' MINUTE AND a.ts", -60_000_000, 0),
        ("a.ts <= p.ts + INTERVAL '5' SECOND AND a.ts > p.ts", -5_000_000, -1),
        ("p.ts > a.ts - INTERVAL 1 MINUTE AND p.ts < a.ts + INTERVAL 1 MINUTE", -59_999_999, 59_999_999),
        ("p.ts - a.ts BETWEEN INTERVAL -2 SECONDS AND INTERVAL 3 SECONDS", -2_000_000, 3_000_000),
        ("p.ts - INTERVAL 1 SECOND >= a.ts AND a.ts + INTERVAL 2 SECONDS >= p.ts", 1_000_000, 2_000_000),
        ("p.ts <= a.ts + INTERVAL 1 MINUTE 30 SECONDS AND p.ts >= a.ts", 0, 90_000_000),
        ("p.ts < a.ts + INTERVAL '2 hours' + INTERVAL 1 MILLISECOND AND (a.ts <= p.ts)", 0, 7_200_000_999),
        ("INTERVAL 5 SECONDS > a.ts - p.ts AND a.ts - p.ts >= - INTERVAL 1 SECOND", -4_999_999, 1_000_000),
        ("a.ts = p.ts + INTERVAL 3 SECONDS", -3_000_000, -3_000_000),
    ],
)
def test_time_conditions_bound_a_join(condition: str, low: int, high: int) -> None:
    query = join(f"p.userID = a.userID AND {condition}", "", "")
    assert (query.bounds.low, query.bounds.high) == (low, high)
    assert keys(query) == [("`userID`", "`userID`", "bigint")]
    assert [relation.window for relation in query.relations] == [None, None]
    assert [relation.predicate for relation in query.relations] == [None, None]


def test_time_conditions_narrow_windows() -> None:
    query = join("p.userID = a.userID AND p.ts >= a.ts")
    assert (query.bounds.low, query.bounds.high) == (0, 4_999_999)


def test_one_sided_bounds() -> None:
    """Relation 0 without a window needs a lower end of t0 − t1, relation 1 an upper end."""
    assert join("p.userID = a.userID AND p.ts > a.ts - INTERVAL 1 s", "", "[UNBOUNDED]").bounds.low == -999_999
    assert join("p.userID = a.userID AND p.ts < a.ts + INTERVAL 1 s", "[UNBOUNDED]", "").bounds.high == 999_999
    with pytest.raises(MissingWindow, match='"p"'):
        join("p.userID = a.userID AND p.ts < a.ts + INTERVAL 1 s", "", "[UNBOUNDED]")
    with pytest.raises(MissingWindow, match='"a"'):
        join("p.userID = a.userID AND p.ts > a.ts - INTERVAL 1 s", "[UNBOUNDED]", "")


def test_equal_event_times_are_a_key_and_a_bound() -> None:
    query = join("p.ts = a.ts", "", "")
    assert keys(query) == [("`ts`", "`ts`", "timestamp")]
    assert (query.bounds.low, query.bounds.high) == (0, 0)
    used = bound("SELECT 1 FROM purchases p JOIN ads a USING (ts)")
    assert (keys(used), used.bounds) == (keys(query), query.bounds)


def test_event_times_at_a_fixed_distance_are_a_key_if_there_is_no_other() -> None:
    query = join("p.ts = a.ts + INTERVAL 1 SECOND", "", "")
    assert keys(query) == [("`ts`", "(`ts` + INTERVAL '1' SECOND)", "timestamp")]
    assert (query.bounds.low, query.bounds.high) == (1_000_000, 1_000_000)


def test_contradicting_conditions_are_noticed() -> None:
    query = join("p.userID = a.userID AND p.ts > a.ts AND p.ts < a.ts")
    assert query.notices == ("the time conditions contradict each other: the query will never give a row",)


def test_other_timestamps_are_no_event_times() -> None:
    query = join("p.userID = a.userID AND p.ts < a.shown + INTERVAL 1 SECOND")
    assert [to_sql(condition.expression) for condition in query.conditions] == [
        "(`0.ts` < `1.shown` + INTERVAL '1' SECOND)"
    ]
    assert (query.bounds.low, query.bounds.high) == (-4_999_999, 4_999_999)


@given(st.integers(1, 86_400_000_000), st.sampled_from(["MICROSECONDS", "microsecond", "us", "µs"]))
def test_any_size_in_microseconds(micros: int, unit: str) -> None:
    found = parse_window(f"RANGE {micros} {unit}", relation="x", position="")
    assert found == Range(timedelta(microseconds=micros))
