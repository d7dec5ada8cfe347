"""Garbage: a bucket goes exactly when no future row can meet a row of it, found out by trying all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_sample import live
from weft.plan.changelog import LiveQuery
from weft.plan.key import StoreId
from weft.plan.slots import Slots
from weft.plan.window import Sliding, TimeBounds, pair_bounds
from weft.planner.strategy import live_query
from weft.storage.bucket import Bucket, Part
from weft.storage.reachability import horizons, is_reachable

MICRO = timedelta(microseconds=1)
STORES = (StoreId("left"), StoreId("right"))
BOTH = {"q0": STORES, "q1": STORES}
TIMES = st.integers(-12, 12)
ENDS = st.none() | st.integers(-8, 8)
FUTURE = range(-40, 80)
QUERY = live("SELECT p.x FROM a [RANGE 1 SECOND] p JOIN b [RANGE 1 SECOND] q ON p.k = q.k")
BOUNDS = st.builds(TimeBounds, ENDS, ENDS).filter(lambda b: b.low is None or b.high is None or b.low <= b.high)


def bounded(bounds: TimeBounds, sliding: Sliding | None = None, slot: int = 0) -> LiveQuery:
    record = replace(QUERY.record, id=f"q{slot}", slot=slot)
    return live_query(record, replace(QUERY.query, bounds=bounds, sliding=sliding))


def bucket(side: int, *times: int, slots: int = 1) -> Bucket:
    part = Part(0, 9, len(times), min(times), max(times), Slots(slots))
    return Bucket("x", STORES[side], "ab"[side], 0, (Part(10, 19, 0, 0, 0, Slots(0)), part), 1)


def admits(query: LiveQuery, t0: int, t1: int) -> bool:
    """What the semantics say about one pair."""
    bounds, sliding = query.query.bounds, query.query.sliding
    if (bounds.low is not None and t0 - t1 < bounds.low) or (bounds.high is not None and t0 - t1 > bounds.high):
        return False
    if sliding is None:
        return True
    size, slide = sliding.size // MICRO, sliding.slide // MICRO
    begins = range(min(t0, t1) - size, min(t0, t1) + 1)
    return any(begin % slide == 0 and max(t0, t1) < begin + size for begin in begins)


def can_match(query: LiveQuery, side: int, stored: int, watermark: int | None) -> bool:
    """Whether a row that is still to come on the other stream makes a pair with the stored one."""
    coming = (time for time in FUTURE if watermark is None or time >= watermark)
    return any(admits(query, *((stored, time) if side == 0 else (time, stored))) for time in coming)


@given(bounds=BOUNDS, side=st.integers(0, 1), stored=TIMES, watermark=st.none() | TIMES)
@settings(max_examples=100)
def test_a_row_is_kept_exactly_while_it_can_be_met(
    bounds: TimeBounds, side: int, stored: int, watermark: int | None
) -> None:
    query = bounded(bounds)
    watermarks = {} if watermark is None else {"ba"[side]: watermark, "ab"[side]: 10**6}
    limits = horizons([query], BOTH, watermarks)
    assert is_reachable(bucket(side, stored), Slots(1), limits, None) == can_match(query, side, stored, watermark)


@given(
    size=st.integers(1, 9), slide=st.integers(1, 9), side=st.integers(0, 1), stored=TIMES, watermark=TIMES
)  # fmt: skip
@settings(max_examples=100)
def test_sliding_windows_lose_no_row_and_keep_none_longer_than_their_size(
    size: int, slide: int, side: int, stored: int, watermark: int
) -> None:
    window = Sliding(size * MICRO, slide * MICRO)
    query = bounded(pair_bounds(window, window), window)
    kept = is_reachable(bucket(side, stored), Slots(1), horizons([query], BOTH, {"a": watermark, "b": watermark}), None)
    assert kept or not can_match(query, side, stored, watermark)
    assert not kept or stored > watermark - size


@given(times=st.lists(TIMES, min_size=1, max_size=4), bounds=st.tuples(BOUNDS, BOUNDS), watermark=TIMES)
@settings(max_examples=100)
def test_a_bucket_is_kept_while_any_of_its_rows_can_be_met_by_any_query(
    times: list[int], bounds: tuple[TimeBounds, TimeBounds], watermark: int
) -> None:
    queries = [bounded(each, slot=slot) for slot, each in enumerate(bounds)]
    limits = horizons(queries, BOTH, {"b": watermark})
    wanted = any(can_match(query, 0, time, watermark) for query in queries for time in times)
    assert is_reachable(bucket(0, *times, slots=3), Slots(3), limits, None) == wanted


@pytest.mark.parametrize(("slots", "meaning"), [(0b01, 0b10), (0b10, 0b10), (0, 0b11), (0b11, 0)])
def test_bits_that_mean_nobody_keep_nothing(slots: int, meaning: int) -> None:
    limits = horizons([bounded(TimeBounds(None, None))], BOTH, {})
    assert not is_reachable(bucket(0, 5, slots=slots), Slots(meaning), limits, None)


def test_a_store_without_queries_is_garbage_unless_it_is_retained() -> None:
    assert not is_reachable(bucket(0, 5), Slots(1), {}, None)
    assert not is_reachable(bucket(0, 5), Slots(1), {}, 6)
    assert is_reachable(bucket(0, 5), Slots(0), {}, 5)


def test_selections_reach_nothing() -> None:
    assert horizons([live("SELECT x FROM a")], {"q0": (STORES[0],)}, {}) == {}


# ---- windows that end


AGGREGATE = live("SELECT COUNT(*) FROM a [TUMBLE 1 SECOND]")
SESSIONS = live("SELECT k, COUNT(*) FROM a [SESSION 1 SECOND] GROUP BY k")
SESSION_JOIN = live("SELECT p.x FROM a [SESSION 1 SECOND] p JOIN b [SESSION 1 SECOND] q ON p.k = q.k")
JOINED = live("SELECT COUNT(*) FROM a [TUMBLE 1 SECOND] p JOIN b [TUMBLE 1 SECOND] q ON p.k = q.k")


def windowed(query: LiveQuery, size: int, slide: int) -> LiveQuery:
    return live_query(query.record, replace(query.query, sliding=Sliding(size * MICRO, slide * MICRO)))


@given(size=st.integers(1, 9), slide=st.integers(1, 9), stored=TIMES, ended=st.none() | TIMES)
@settings(max_examples=100)
def test_slices_are_kept_while_a_window_with_them_has_not_ended(
    size: int, slide: int, stored: int, ended: int | None
) -> None:
    query = windowed(AGGREGATE, size, slide)
    closed = {} if ended is None else {("a",): ended, ("a", "b"): 10**6}
    limits = horizons([query], {"q0": STORES[:1]}, {"a": 10**6}, closed)
    kept = is_reachable(bucket(0, stored), Slots(1), limits, None)
    begins = (begin for begin in range(stored - size + 1, stored + 1) if begin % slide == 0)
    assert kept or not any(ended is None or begin + size > ended for begin in begins)
    assert not kept or ended is None or stored >= ended - size


@pytest.mark.parametrize("side", [0, 1])
def test_windows_of_a_join_end_for_both_sides_together(side: int) -> None:
    query = windowed(JOINED, 5, 5)
    limits = horizons([query], BOTH, {"a": 10**6, "b": 10**6}, {("a",): 10**6, ("a", "b"): 20})
    assert is_reachable(bucket(side, 15), Slots(1), limits, None)
    assert not is_reachable(bucket(side, 14), Slots(1), limits, None)


@pytest.mark.parametrize("query", [SESSIONS, SESSION_JOIN], ids=["aggregation", "join"])
def test_of_sessions_only_those_who_look_know_what_is_open(query: LiveQuery) -> None:
    stores = {"q0": STORES if len(query.query.relations) == 2 else STORES[:1]}
    limits = horizons([query], stores, {"a": 0, "b": 0}, {("a",): 0, ("a", "b"): 0})
    assert not is_reachable(bucket(0, 10**9), Slots(1), limits, None)
    assert is_reachable(bucket(0, 10**9), Slots(1), limits, 10**9), "a retain period keeps it all the same"


def test_how_long_reaches_are() -> None:
    """Without times: for the choice of what to merge."""
    queries = [windowed(AGGREGATE, 7, 2), replace(SESSIONS, record=replace(SESSIONS.record, id="q1", slot=1))]
    limits = horizons(queries, {"q0": STORES[:1], "q1": STORES[1:]}, {"a": 0}, None)
    assert limits == {"left": [(-7, 1)], "right": [(None, 2)]}


def test_aggregates_over_combinations_need_rows_that_can_meet_and_cells_of_open_windows() -> None:
    window = "[RANGE 10 SECONDS SLIDE 4 SECONDS]"
    query = live(f"SELECT COUNT(*) FROM a {window} p JOIN b {window} q ON p.x < q.x")
    second = 1_000_000
    stores = {"q0": (*STORES, StoreId("cells"))}
    found = horizons([query], stores, {"a": 30 * second, "b": 20 * second}, {("a", "b"): 17 * second})
    reach = 10 * second - 1
    assert found == {
        "left": [(20 * second - reach, 1)],
        "right": [(30 * second - reach, 1)],
        "cells": [(7 * second, 1)],
    }
    assert horizons([query], stores, dict.fromkeys("ab", 0), None)["cells"] == [(-10 * second, 1)]
