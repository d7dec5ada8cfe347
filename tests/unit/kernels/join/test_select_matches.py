"""The reader against windows and bounds tested one by one."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.kernels.bitset import set_to_words
from weft.kernels.join.merge_join import JoinSide, join_pairs
from weft.kernels.join.select_matches import SelectedRows, Timed, select_pairs, select_rows
from weft.kernels.join.window_table import TIME_MAX, TIME_MIN, WindowEntry, build_window_table
from weft.kernels.order import sort_order
from weft.plan.window import EVERYTHING, Sliding, TimeBounds

MICRO = timedelta(microseconds=1)
NEAR = st.integers(-12, 12)
FAR = st.sampled_from([TIME_MIN, TIME_MIN + 1, TIME_MIN + 6, 0, TIME_MAX - 6, TIME_MAX - 1, TIME_MAX])
SETS = st.sampled_from([0, 1, 2, 1 << 63, 1 << 64, 1 << 100, 2**128 - 1, 2**64 - 1])
SLOTS = st.sampled_from([0, 1, 63, 64, 100, 200])
SLIDING = st.builds(lambda size, slide: Sliding(size * MICRO, slide * MICRO), st.integers(1, 12), st.integers(1, 12))


def windows_of(times: list[int], sliding: Sliding, start: int | None) -> list[int]:
    """Beginnings of all windows that hold all times and are reported."""
    size, slide = sliding.size // MICRO, sliding.slide // MICRO
    first = TIME_MIN if start is None else max(start, TIME_MIN)
    candidates = range(max(times) - size + 1, min(times) + 1)
    return [w for w in candidates if w % slide == 0 and w >= first]


def near(bounds: TimeBounds, distance: int) -> bool:
    """Whether bounds admit a distance; an end at the end of the range of times is none."""
    low = TIME_MIN if bounds.low is None else bounds.low
    high = TIME_MAX if bounds.high is None else bounds.high
    return low <= max(min(distance, TIME_MAX), TIME_MIN) <= high


def entries_of(selected: SelectedRows) -> list[tuple[int, int | None]]:
    """(position, window) in order."""
    if selected.window_start is None:
        return [(position, None) for position in selected.positions.tolist()]
    return list(zip(selected.positions.tolist(), selected.window_start.tolist(), strict=True))


def _arrays(rows: list[tuple[int, int]], words: int = 2) -> Timed:
    sets = np.array([set_to_words(bits, 2) for _, bits in rows], np.uint64).reshape(-1, 2)[:, :words]
    t = np.array([t for t, _ in rows], np.int64)
    t.flags.writeable = False
    return t, sets


def _rows(times: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(times, SETS), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.booleans(), SLOTS, st.none() | SLIDING)
def test_pairs_of_one_query(data: st.DataObject, far: bool, slot: int, sliding: Sliding | None) -> None:
    times = FAR if far else NEAR
    left, right = data.draw(_rows(times)), data.draw(_rows(times))
    ends = st.none() | times | st.sampled_from([-(2**70), 2**70])
    bounds, start = TimeBounds(data.draw(ends), data.draw(ends)), data.draw(ends)
    words = data.draw(st.sampled_from([1, 2]))
    grid = [(a, b) for a in range(len(left)) for b in range(len(right))]
    pairs = data.draw(st.lists(st.sampled_from(grid), max_size=20))
    selected = select_pairs(
        np.array([a for a, _ in pairs], np.int32),
        np.array([b for _, b in pairs], np.int32),
        _arrays(left, words),
        _arrays(right),
        slot=slot,
        bounds=bounds,
        sliding=sliding,
        start=start,
    )
    expected: list[tuple[int, int | None]] = []
    for position, (a, b) in enumerate(pairs):
        (t, bits), (u, other) = left[a], right[b]
        wanted = (bits % 2 ** (64 * words) & other) >> slot & 1
        if wanted and near(bounds, t - u):
            expected += [(position, w) for w in (windows_of([t, u], sliding, start) if sliding else [None])]
    assert entries_of(selected) == expected


@settings(max_examples=100, deadline=None)
@given(_rows(NEAR) | _rows(FAR), SLOTS, st.none() | SLIDING, st.none() | NEAR | FAR)
def test_rows_of_one_query(rows: list[tuple[int, int]], slot: int, sliding: Sliding | None, start: int | None) -> None:
    t, sets = _arrays(rows)
    selected = select_rows(t, sets, slot=slot, sliding=sliding, start=start)
    expected: list[tuple[int, int | None]] = []
    for position, (time, bits) in enumerate(rows):
        if bits >> slot & 1:
            expected += [(position, w) for w in (windows_of([time], sliding, start) if sliding else [None])]
    assert entries_of(selected) == expected


def test_windows_longer_than_time_itself() -> None:
    t, sets = np.array([5, -5], np.int64), np.ones((2, 1), np.uint64)
    endless = Sliding(timedelta.max, timedelta.max)
    assert entries_of(select_rows(t, sets, slot=0, sliding=endless, start=0)) == [(0, 0)]
    assert entries_of(select_rows(t, sets, slot=0, sliding=endless, start=2**70)) == []


def test_the_reader_finds_exactly_what_the_join_kept() -> None:
    """Every logged pair is some query's, and every query's pairs are in the log."""
    random = np.random.default_rng(5)
    queries = [WindowEntry(slot, TimeBounds(-3 * slot, 2 * slot), None, None) for slot in range(6)]
    queries += [
        WindowEntry(slot, EVERYTHING, Sliding((slot - 50) * 3 * MICRO, (slot - 50) * MICRO), -20)
        for slot in range(60, 70)
    ]
    sides = []
    for _ in "lr":
        h, t = random.integers(0, 40, 400).astype(np.uint64), random.integers(-60, 60, 400)
        sets = random.integers(0, 2**64, (400, 2), np.uint64) & random.integers(0, 2**64, (400, 2), np.uint64)
        order = sort_order(h, t)
        sides.append(JoinSide(h[order], t[order], sets[order]))
    left, right = sides
    everything = build_window_table([WindowEntry(slot, EVERYTHING, None, None) for slot in range(128)], 2)
    candidates = join_pairs(left, right, everything, set_to_words(2**128 - 1, 2))
    log = join_pairs(left, right, build_window_table(queries, 2), set_to_words(2**128 - 1, 2))
    all_of_them: set[tuple[int, int]] = set()
    for entry in queries:
        in_full, in_log = (_pairs_of(pairs, left, right, entry) for pairs in (candidates, log))
        assert in_full == in_log
        all_of_them |= in_full
    assert set(zip(log[0].tolist(), log[1].tolist(), strict=True)) == all_of_them


def _pairs_of(
    pairs: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]], left: JoinSide, right: JoinSide, entry: WindowEntry
) -> set[tuple[int, int]]:
    selected = select_pairs(
        *pairs,
        (left.t, left.sets),
        (right.t, right.sets),
        slot=entry.slot,
        bounds=entry.bounds,
        sliding=entry.sliding,
        start=entry.start,
    )
    return {(int(pairs[0][k]), int(pairs[1][k])) for k in selected.positions}
