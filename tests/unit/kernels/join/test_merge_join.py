"""The merge join against every pair tested by itself, in Python's unlimited integers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InternalError
from weft.kernels.bitset import set_from_words, set_to_words
from weft.kernels.join.merge_join import JoinSide, iter_pairs, join_pairs
from weft.kernels.join.window_table import TIME_MAX, TIME_MIN, WindowEntry, build_window_table
from weft.kernels.order import sort_order
from weft.plan.window import EVERYTHING, Sliding, TimeBounds

pytestmark = pytest.mark.thorough

MICRO = timedelta(microseconds=1)
TIMES = st.integers(-12, 12)
ENDS = st.none() | st.integers(-15, 15)
EXTREMES = st.sampled_from([TIME_MIN, TIME_MIN + 1, TIME_MIN + 7, -5, 0, 5, TIME_MAX - 7, TIME_MAX - 1, TIME_MAX])
FAR_ENDS = st.none() | EXTREMES | st.sampled_from([-(2**70), 2**70])
SLIDING = st.none() | st.builds(lambda size, slide: Sliding(size * MICRO, slide * MICRO), *[st.integers(1, 9)] * 2)


@st.composite
def sides(draw: st.DrawFn, times: st.SearchStrategy[int], words: int) -> JoinSide:
    """Rows with few keys and any query-sets, in their own order or behind an index that leaves some rows out."""
    keys = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
    sets = st.sampled_from([0, 1, 2, 1 << 63, 2**64 - 1, 1 << (64 * words - 1), 2 ** (64 * words) - 1, 3 << 63])
    rows = draw(st.lists(st.tuples(keys, times, sets), max_size=25))
    h, t = np.array([row[0] for row in rows], np.uint64), np.array([row[1] for row in rows], np.int64)
    bits = np.array([set_to_words(row[2] % 2 ** (64 * words), words) for row in rows], np.uint64).reshape(-1, words)
    order = sort_order(h, t)
    if draw(st.booleans()):
        index = order[draw(st.integers(0, 3)) :]
        return JoinSide(h[index], t, bits, index)
    side = JoinSide(h[order], t[order], bits[order])
    if draw(st.booleans()):
        for array in (side.h, side.t, side.sets):
            array.flags.writeable = False
    return side


@st.composite
def entries(
    draw: st.DrawFn, ends: st.SearchStrategy[int | None], starts: st.SearchStrategy[int | None]
) -> list[WindowEntry]:
    """A few queries with any windows, in slots that lie far apart."""
    slots = draw(st.lists(st.sampled_from([0, 1, 2, 62, 63, 64, 65, 127]), max_size=6, unique=True))
    bounds = st.builds(TimeBounds, ends, ends)
    return [WindowEntry(slot, draw(bounds), draw(SLIDING), draw(starts)) for slot in slots]


def near(bounds: TimeBounds, distance: int) -> bool:
    """Whether bounds admit a distance; an end at the end of the range of times is none."""
    low = TIME_MIN if bounds.low is None else bounds.low
    high = TIME_MAX if bounds.high is None else bounds.high
    return low <= max(min(distance, TIME_MAX), TIME_MIN) <= high


def admits(entry: WindowEntry, left: int, right: int) -> bool:
    """What the semantics say about one query and one pair."""
    if not near(entry.bounds, left - right):
        return False
    if entry.sliding is None:
        return True
    size, slide = entry.sliding.size // MICRO, entry.sliding.slide // MICRO
    first = TIME_MIN if entry.start is None else entry.start
    begins = range(min(left, right) - size - slide, min(left, right) + 1)
    return any(w % slide == 0 and w >= first and max(left, right) < w + size for w in begins if w >= TIME_MIN)


def brute_force(left: JoinSide, right: JoinSide, queries: Sequence[WindowEntry], mask: int) -> list[tuple[int, int]]:
    """Every pair, in the order of the merge."""
    rows_l = range(len(left.h)) if left.rows is None else left.rows.tolist()
    rows_r = range(len(right.h)) if right.rows is None else right.rows.tolist()
    pairs = []
    for h, a in zip(left.h.tolist(), rows_l, strict=True):
        for g, b in zip(right.h.tolist(), rows_r, strict=True):
            both = set_from_words(left.sets[a]) & set_from_words(right.sets[b]) & mask
            wanted = [entry for entry in queries if both >> entry.slot & 1]
            if h == g and any(admits(entry, int(left.t[a]), int(right.t[b])) for entry in wanted):
                pairs.append((a, b))
    return pairs


def check(left: JoinSide, right: JoinSide, queries: Sequence[WindowEntry], mask: int) -> None:
    """The kernel's pairs, at once and in pieces, are the brute force's."""
    table, words = build_window_table(queries, 2), set_to_words(mask, 2)
    expected = brute_force(left, right, queries, mask)
    ia, ib = join_pairs(left, right, table, words)
    assert list(zip(ia.tolist(), ib.tolist(), strict=True)) == expected
    for chunk in (1, 7):
        pieces = list(iter_pairs(left, right, table, words, chunk=chunk))
        assert all(0 < len(first) <= chunk for first, _ in pieces)
        found = [pair for piece in pieces for pair in zip(piece[0].tolist(), piece[1].tolist(), strict=True)]
        assert found == expected


MASKS = st.sampled_from([2**128 - 1, 2**64 - 1, 1, 0, 0b111, 1 << 64, 2**128 - 2])


@settings(max_examples=250, deadline=None)
@given(sides(TIMES, 1) | sides(TIMES, 3), sides(TIMES, 1) | sides(TIMES, 2), entries(ENDS, ENDS), MASKS)
def test_pairs_are_those_of_brute_force(left: JoinSide, right: JoinSide, queries: list[WindowEntry], mask: int) -> None:
    check(left, right, queries, mask)


@settings(max_examples=150, deadline=None)
@given(sides(EXTREMES, 2), sides(EXTREMES, 2), entries(FAR_ENDS, FAR_ENDS), MASKS)
def test_times_at_the_ends_of_their_range(
    left: JoinSide, right: JoinSide, queries: list[WindowEntry], mask: int
) -> None:
    check(left, right, queries, mask)


@settings(max_examples=50, deadline=None)
@given(sides(TIMES, 2), sides(TIMES, 2), entries(ENDS, ENDS))
def test_reachable_never_skips_a_pair(left: JoinSide, right: JoinSide, queries: list[WindowEntry]) -> None:
    if len(left.h) == 0 or len(right.h) == 0:
        return
    table = build_window_table(queries, 2)
    spans = {"min_l": int(left.t.min()), "max_l": int(left.t.max()), "min_r": int(right.t.min())}
    for mask in (1, 2**128 - 1):
        if not table.reachable(**spans, max_r=int(right.t.max()), mask=set_to_words(mask, 2)):
            assert brute_force(left, right, queries, mask) == []


def _bucket(keys: Sequence[int], times: Sequence[int], words: int = 1) -> JoinSide:
    h, t = np.array(keys, np.uint64), np.array(times, np.int64)
    order = sort_order(h, t)
    return JoinSide(h[order], t[order], np.full((len(h), words), 2**64 - 1, np.uint64))


@pytest.mark.parametrize("swap", [False, True])
def test_a_small_side_meets_a_large_one(swap: bool) -> None:
    random = np.random.default_rng(1)
    small = _bucket(random.integers(0, 1_000, 20).tolist(), random.integers(0, 50, 20).tolist())
    large = _bucket(random.integers(0, 1_000, 2_000).tolist(), random.integers(0, 50, 2_000).tolist())
    left, right = (large, small) if swap else (small, large)
    check(left, right, [WindowEntry(0, TimeBounds(-10, 20), None, None)], 1)


@pytest.mark.parametrize("bounds", [TimeBounds(-2, 3), TimeBounds(None, 3), TimeBounds(-2, None), TimeBounds(5, 9)])
def test_long_runs_of_one_key(bounds: TimeBounds) -> None:
    random = np.random.default_rng(2)
    left = _bucket([7] * 60 + [2**64 - 1] * 40, random.integers(-30, 30, 100).tolist())
    right = _bucket([7] * 90 + [2**64 - 1] * 30, random.integers(-30, 30, 120).tolist())
    check(left, right, [WindowEntry(0, bounds, None, None)], 1)
    check(left, right, [WindowEntry(0, bounds, None, None), WindowEntry(3, TimeBounds(0, 0), None, None)], 15)


@pytest.mark.parametrize("bounds", [TimeBounds(5, None), TimeBounds(None, -5), TimeBounds(-5, 5), EVERYTHING])
def test_partners_beyond_the_range_of_times(bounds: TimeBounds) -> None:
    times = [TIME_MIN, TIME_MIN + 3, TIME_MIN + 9, 0, TIME_MAX - 9, TIME_MAX - 3, TIME_MAX]
    for copies in (1, 4):
        left, right = (_bucket([1] * 7 * copies, times * copies) for _ in "lr")
        check(left, right, [WindowEntry(0, bounds, None, None)], 1)
        check(left, right, [WindowEntry(0, bounds, None, None), WindowEntry(1, TimeBounds(2, 3), None, None)], 3)


def test_many_windows_are_looked_up_by_rank() -> None:
    random = np.random.default_rng(3)
    left, right = (_bucket(random.integers(0, 9, 60).tolist(), random.integers(-90, 90, 60).tolist(), 2) for _ in "lr")
    sets = [random.integers(0, 2**64, (60, 2), np.uint64) & random.integers(0, 2**64, (60, 2), np.uint64) for _ in "lr"]
    queries = [WindowEntry(slot, TimeBounds(-slot, slot // 2), None, None) for slot in range(0, 128, 3)]
    queries += [
        WindowEntry(slot, EVERYTHING, Sliding((slot % 11 + 1) * MICRO, (slot % 5 + 1) * MICRO), slot - 60)
        for slot in range(1, 128, 3)
    ]
    check(replace(left, sets=sets[0]), replace(right, sets=sets[1]), queries, 2**128 - 1)
    check(replace(left, sets=sets[0]), replace(right, sets=sets[1]), queries[-30:], 2**128 - 1)


def test_a_hot_key_with_a_short_window_is_not_quadratic() -> None:
    """All 4e10 combinations would take minutes; the timeout of unit tests is the judge."""
    times = np.arange(200_000)
    side = JoinSide(np.zeros(200_000, np.uint64), times, np.ones((200_000, 1), np.uint64))
    table = build_window_table([WindowEntry(0, TimeBounds(0, 1), None, None)], 1)
    ia, ib = join_pairs(side, side, table, set_to_words(1, 1))
    assert len(ia) == 399_999
    assert set((ia - ib).tolist()) == {0, 1}


def test_buffers_that_are_read_only_unaligned_or_sliced() -> None:
    left, right = _bucket([1, 2, 2, 3], [0, 1, 2, 3]), _bucket([2, 3, 3, 4], [0, 1, 2, 3])
    table = build_window_table([WindowEntry(0, EVERYTHING, None, None)], 1)
    expected = [pairs.tolist() for pairs in join_pairs(left, right, table, set_to_words(1, 1))]
    odd = JoinSide(
        np.frombuffer(b"x" + left.h.tobytes(), np.uint64, offset=1),
        np.repeat(left.t, 2)[::2],
        np.frombuffer(left.sets.tobytes(), np.uint64).reshape(-1, 1),
    )
    assert [pairs.tolist() for pairs in join_pairs(odd, right, table, set_to_words(1, 1))] == expected


def test_table_survives_pickling() -> None:
    queries = [
        WindowEntry(0, TimeBounds(-5, 5), None, None),
        WindowEntry(70, EVERYTHING, Sliding(8 * MICRO, 4 * MICRO), -3),
    ]
    table = build_window_table(queries, 2)
    copy = pickle.loads(pickle.dumps(table))
    left, right = _bucket([1] * 9, range(-4, 5), 2), _bucket([1] * 9, range(-6, 12, 2), 2)
    mask = set_to_words(2**128 - 1, 2)
    assert [part.tolist() for part in join_pairs(left, right, copy, mask)] == [
        part.tolist() for part in join_pairs(left, right, table, mask)
    ]


def test_limits_of_a_table() -> None:
    some = build_window_table([WindowEntry(0, TimeBounds(-5, 7), None, None)], 1)
    assert (some.low, some.high) == (-5, 7)
    half = build_window_table(
        [WindowEntry(0, TimeBounds(2, None), None, None), WindowEntry(1, TimeBounds(0, 1), None, None)], 1
    )
    assert (half.low, half.high) == (0, None)
    sliding = build_window_table([WindowEntry(0, EVERYTHING, Sliding(4 * MICRO, MICRO), None)], 1)
    assert (sliding.low, sliding.high) == (-3, 3)
    empty = build_window_table([WindowEntry(0, TimeBounds(3, 2), None, None)], 1)
    assert (empty.low, empty.high) == (0, -1)
    assert not empty.reachable(min_l=0, max_l=9, min_r=0, max_r=9)
    assert some.reachable(min_l=0, max_l=9, min_r=14, max_r=20)
    assert not some.reachable(min_l=0, max_l=9, min_r=15, max_r=20)


def test_a_slot_asks_once() -> None:
    with pytest.raises(InternalError, match="more than one entry"):
        build_window_table([WindowEntry(3, EVERYTHING, None, None)] * 2, 1)
