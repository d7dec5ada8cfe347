"""Query-sets of larger combinations against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.kernels.bitset import set_from_words, set_to_words
from weft.kernels.join.and_sets import combine_sets
from weft.kernels.join.window_table import TIME_MAX, TIME_MIN, WindowEntry, build_window_table
from weft.plan.window import TimeBounds

SLOTS = 70
_sets = st.integers(0, (1 << SLOTS) - 1)
_times = st.one_of(st.integers(-5, 5), st.sampled_from([TIME_MIN, TIME_MIN + 1, TIME_MAX - 1, TIME_MAX]))
_bounds = st.tuples(st.one_of(st.none(), st.integers(-6, 6)), st.one_of(st.none(), st.integers(-6, 6)))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_slots_that_all_sides_and_all_windows_have(data: st.DataObject) -> None:
    left = data.draw(st.lists(st.tuples(_sets, _times, _times), min_size=1, max_size=5))
    right = data.draw(st.lists(st.tuples(_sets, _times), min_size=1, max_size=5))
    mask = data.draw(_sets)
    slots = data.draw(st.lists(st.integers(0, SLOTS - 1), unique=True, max_size=6))
    tables, bounds = [], []
    for _ in range(2):
        mine = {slot: TimeBounds(*data.draw(_bounds)) for slot in slots}
        bounds.append(mine)
        tables.append(build_window_table([WindowEntry(s, b, None, None) for s, b in mine.items()], 2))
    pairs = [(i, j) for i in range(len(left)) for j in range(len(right))]
    ia, ib = (np.array(side, np.int32) for side in zip(*pairs, strict=True))
    times = np.array([row[1] for row in right], np.int64)
    found = combine_sets(
        np.stack([set_to_words(row[0], 2) for row in left]),
        np.stack([set_to_words(row[0], 2) for row in right]),
        set_to_words(mask, 2),
        pairs=(ia, ib),
        distances=[
            (np.array([row[1 + at] for row in left], np.int64), times, table) for at, table in enumerate(tables)
        ],
    )
    for (i, j), got in zip(pairs, found, strict=True):
        wanted = 0
        for slot in slots:
            inside = all(
                (each[slot].low is None or _minus(left[i][1 + at], right[j][1]) >= each[slot].low)
                and (each[slot].high is None or _minus(left[i][1 + at], right[j][1]) <= each[slot].high)
                for at, each in enumerate(bounds)
            )
            if inside and left[i][0] & right[j][0] & mask & 1 << slot:
                wanted |= 1 << slot
        assert set_from_words(got) == wanted


def _minus(first: int, second: int) -> int:
    return max(TIME_MIN, min(TIME_MAX, first - second))


def test_sets_of_fewer_words_on_one_side() -> None:
    table = build_window_table([WindowEntry(1, TimeBounds(None, None), None, None)], 1)
    zero = np.zeros(1, np.int64)
    found = combine_sets(
        np.array([[3, 1]], np.uint64), np.array([[2]], np.uint64), np.array([2, 1], np.uint64),
        pairs=(np.zeros(1, np.int32), np.zeros(1, np.int32)), distances=[(zero, zero, table)],
    )  # fmt: skip
    assert found.tolist() == [[2, 0]]
