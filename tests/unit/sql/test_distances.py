"""Joins of more than two relations in time: windows, distances between event times, and what follows from them."""

from __future__ import annotations

from datetime import timedelta
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sql_streams import ads, bound, distances, joined_by
from weft.errors import InvalidWindow, MissingWindow
from weft.plan.window import EVERYTHING, Range, Session, Sliding, TimeBounds, Unbounded
from weft.sql.names.join import NOTHING, close_bounds

SECOND = timedelta(seconds=1)
CONTRADICTION = "the time conditions contradict each other: the query will never give a row"


def test_windows_of_different_length() -> None:
    query = bound(
        "SELECT 1 FROM ads [RANGE 1 s] a JOIN ads [RANGE 20 s] b USING (userID) JOIN ads [UNBOUNDED] c USING (userID)"
    )
    assert [each.window for each in query.relations] == [Range(SECOND), Range(20 * SECOND), Unbounded()]
    assert distances(query) == {(0, 1): (-999_999, 19_999_999), (0, 2): (-999_999, None), (1, 2): (-19_999_999, None)}


def test_distances_add_up() -> None:
    query = ads(
        "abc",
        "a.userID = b.userID AND b.userID = c.userID AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 3 SECONDS "
        "AND c.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 4 SECONDS",
        window="",
    )
    assert distances(query) == {
        (0, 1): (-3_000_000, 0),
        (1, 2): (-4_000_000, 1_000_000),
        (0, 2): (-7_000_000, 1_000_000),
    }
    assert query.notices == ()


def test_distances_tighten_windows() -> None:
    query = ads("abc", "a.userID = b.userID AND b.userID = c.userID AND a.ts <= b.ts AND b.ts <= c.ts")
    assert distances(query) == dict.fromkeys(((0, 1), (0, 2), (1, 2)), (-4_999_999, 0))
    query = ads(
        "abc", "a.userID = b.userID AND b.userID = c.userID AND a.ts = b.ts AND b.ts = c.ts - INTERVAL 1 SECOND"
    )
    assert distances(query) == {(0, 1): (0, 0), (0, 2): (-1_000_000, -1_000_000), (1, 2): (-1_000_000, -1_000_000)}
    assert joined_by(query) == ["0.ts = 1.ts", "0.userID = 1.userID", "1.userID = 2.userID"]


def test_a_relation_without_window_is_limited_through_others() -> None:
    where = "a.userID = b.userID AND b.userID = c.userID AND b.ts <= a.ts + INTERVAL 1 SECOND"
    limited = "SELECT 1 FROM ads a, ads [RANGE 5 s] b, ads {} c WHERE " + where
    query = bound(limited.format("[RANGE 5 s]") + " AND c.ts <= b.ts")
    assert distances(query)[0, 2] == (-1_000_000, 4_999_999)
    # c may be later than b by its window only, so a is limited through b.
    assert distances(bound(limited.format("[RANGE 5 s]")))[0, 2] == (-5_999_999, 4_999_999)
    with pytest.raises(MissingWindow, match='"a"') as caught:
        bound("SELECT 1 FROM ads a, ads [UNBOUNDED] b, ads [UNBOUNDED] c WHERE " + where)
    assert "c.ts <= a.ts + INTERVAL 10 SECONDS" in caught.value.hint


def test_contradictions_in_time_are_noticed() -> None:
    query = ads("abc", "a.userID = b.userID AND b.userID = c.userID AND a.ts < b.ts AND b.ts < c.ts AND c.ts < a.ts")
    assert {bounds for _, _, bounds in query.pair_bounds} == {NOTHING}
    assert query.notices == (CONTRADICTION,)


_END = st.one_of(st.none(), st.integers(-4, 4))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_END, _END), min_size=3, max_size=6))
def test_closed_bounds_are_exactly_what_is_possible(ends: list[tuple[int | None, int | None]]) -> None:
    """Against all event times of a small range; distances beyond it cannot be told apart from no limit."""
    count = 3 if len(ends) < 6 else 4
    pairs = list(combinations(range(count), 2))
    limits = {pair: TimeBounds(*(ends[at] if at < len(ends) else (None, None))) for at, pair in enumerate(pairs)}
    reach = 41 if count == 3 else 7
    closed = close_bounds(limits, count)
    seen: dict[tuple[int, int], set[int]] = {pair: set() for pair in pairs}
    for times in product(range(reach), repeat=count - 1):
        whole = (reach // 2, *times)
        if all(_admits(limits[i, j], whole[i] - whole[j]) for i, j in pairs):
            for i, j in pairs:
                seen[i, j].add(whole[i] - whole[j])
                assert _admits(closed[i, j], whole[i] - whole[j])
    if count == 3:
        for i, j in pairs:
            near = range(-3, 4)
            assert {each for each in near if _admits(closed[i, j], each)} == {
                each for each in near if each in seen[i, j]
            }


def _admits(bounds: TimeBounds, distance: int) -> bool:
    return (bounds.low is None or bounds.low <= distance) and (bounds.high is None or distance <= bounds.high)


def test_sliding_and_session_windows_are_one_for_all() -> None:
    where = "a.userID = b.userID AND b.userID = c.userID"
    assert ads("abc", where, "[TUMBLE 5 s]").sliding == Sliding(5 * SECOND, 5 * SECOND)
    session = ads("abc", where, "[SESSION 5 s]")
    assert session.session == Session(5 * SECOND)
    assert {bounds for _, _, bounds in session.pair_bounds} == {EVERYTHING}
    with pytest.raises(InvalidWindow, match='"a" and "c"') as caught:
        bound(f"SELECT 1 FROM ads [TUMBLE 5 s] a, ads [TUMBLE 5 s] b, ads [TUMBLE 6 s] c WHERE {where}")
    assert caught.value.hint.endswith("on all relations.")
    with pytest.raises(InvalidWindow, match='"a" and "c"'):
        bound(f"SELECT 1 FROM ads [RANGE 5 s] a, ads [RANGE 5 s] b, ads [SESSION 6 s] c WHERE {where}")


def test_sessions_need_one_join_key() -> None:
    ads("abc", "a.userID = b.userID AND b.userID = c.userID AND a.gemPack < c.gemPack", "[SESSION 5 s]")
    ads("abc", "a.gemPack = b.userID AND c.gemPack = a.gemPack", "[SESSION 5 s]")
    with pytest.raises(InvalidWindow, match="no join key in common"):
        ads("abc", "a.userID = b.userID AND b.userID = c.userID AND a.gemPack = c.gemPack", "[SESSION 5 s]")
