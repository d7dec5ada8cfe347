"""The reader's side of the join: selection of one query's pairs or rows, and of their windows.

The log of a pair of buckets holds the pairs that some query wants. Whether the slot belonged to this query when the
buckets were written is the same for all of their pairs: the caller checks it once, before reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt

from weft.kernels.bitset import WORD_BITS, Words
from weft.kernels.join.merge_join import clamped_difference
from weft.kernels.join.window_table import Times
from weft.kernels.key_hash import frozen
from weft.plan.time import TIME_MAX, TIME_MIN
from weft.plan.window import Sliding, TimeBounds, to_micros

Rows = npt.NDArray[np.int32]
Timed = tuple[Times, Words]


@dataclass(frozen=True, slots=True, eq=False)
class SelectedRows:
    """Ascending positions of a query's pairs or rows; with sliding windows, one entry per window, with its start."""

    positions: npt.NDArray[np.int64]
    window_start: Times | None


def select_pairs(
    ia: Rows,
    ib: Rows,
    left: Timed,
    right: Timed,
    *,
    slot: int,
    bounds: TimeBounds,
    sliding: Sliding | None,
    start: int | None,
) -> SelectedRows:
    """Select the pairs (ia[k], ib[k]) whose rows both have the slot, at an admitted distance, in a common window."""
    low = TIME_MIN if bounds.low is None else bounds.low
    high = TIME_MAX if bounds.high is None else bounds.high
    word, bit = divmod(slot, WORD_BITS)
    words = min(left[1].shape[1], right[1].shape[1])
    if word >= words or low > min(high, TIME_MAX) or high < TIME_MIN:
        return _nothing(sliding)
    positions = _pairs_of(
        (frozen(ia, np.int32), frozen(ib, np.int32)),
        (frozen(left[0], np.int64), frozen(left[1], np.uint64)),
        (frozen(right[0], np.int64), frozen(right[1], np.uint64)),
        word,
        np.uint64(1 << bit),
        max(low, TIME_MIN),
        min(high, TIME_MAX),
    )
    if sliding is None:
        return SelectedRows(positions, None)
    lefts, rights = left[0][ia[positions]], right[0][ib[positions]]
    return _by_window(positions, np.minimum(lefts, rights), np.maximum(lefts, rights), sliding, start)


def select_rows(t: Times, sets: Words, *, slot: int, sliding: Sliding | None, start: int | None) -> SelectedRows:
    """Select the rows that have the slot; with sliding windows, once for each window that contains the row."""
    word, bit = divmod(slot, WORD_BITS)
    if word >= sets.shape[1]:
        return _nothing(sliding)
    positions = np.flatnonzero(sets[:, word] & np.uint64(1 << bit))
    if sliding is None:
        return SelectedRows(positions, None)
    times = t[positions]
    return _by_window(positions, times, times, sliding, start)


def select_windows(earliest: Times, latest: Times, *, sliding: Sliding, start: int | None) -> SelectedRows:
    """Select combinations, given by their earliest and latest times, once for each window that contains both."""
    return _by_window(np.arange(len(earliest)), earliest, latest, sliding, start)


def _nothing(sliding: Sliding | None) -> SelectedRows:
    return SelectedRows(np.empty(0, np.int64), None if sliding is None else np.empty(0, np.int64))


def _by_window(
    positions: npt.NDArray[np.int64], earlier: Times, later: Times, sliding: Sliding, start: int | None
) -> SelectedRows:
    size, slide = min(to_micros(sliding.size), TIME_MAX), min(to_micros(sliding.slide), TIME_MAX)
    first = TIME_MIN if start is None else start
    if first > TIME_MAX:
        return _nothing(sliding)
    chosen, windows = _windows_of(
        frozen(positions, np.int64),
        (frozen(earlier, np.int64), frozen(later, np.int64)),
        size,
        slide,
        max(first, TIME_MIN),
    )
    return SelectedRows(chosen, windows)


@nb.njit(cache=True, nogil=True)
def _pairs_of(
    pairs: tuple[Rows, Rows], left: Timed, right: Timed, word: int, bit: np.uint64, low: int, high: int
) -> npt.NDArray[np.int64]:
    ia, ib = pairs
    tl, sl = left
    tr, sr = right
    positions = np.empty(len(ia), np.int64)
    n = 0
    for k in range(len(ia)):
        a, b = ia[k], ib[k]
        distance = clamped_difference(tl[a], tr[b])
        positions[n] = k
        n += (sl[a, word] & sr[b, word] & bit != 0) & (low <= distance) & (distance <= high)
    return positions[:n].copy()


@nb.njit(cache=True, nogil=True)
def _windows_of(
    positions: npt.NDArray[np.int64], times: tuple[Times, Times], size: int, slide: int, start: int
) -> tuple[npt.NDArray[np.int64], Times]:
    """Return one entry per window [w, w + size), w a multiple of slide and not before start, that contains both times.

    The windows of one position are in ascending order.
    """
    earlier, later = times
    total = 0
    for fill in (False, True):
        chosen = np.empty(total, np.int64)
        windows = np.empty(total, np.int64)
        total = 0
        for k in range(len(positions)):
            offset = earlier[k] % slide
            # Windows that begin at or after `oldest` hold the later time and are reported; none begins before TIME_MIN.
            oldest = max(later[k] - size + 1, start) if later[k] >= TIME_MIN + size else start
            if earlier[k] < TIME_MIN + offset or earlier[k] - offset < oldest:
                continue
            last = earlier[k] - offset
            count = (last - oldest) // slide + 1
            if fill:
                for c in range(count):
                    chosen[total + c] = positions[k]
                    windows[total + c] = last - (count - 1 - c) * slide
            total += count
    return chosen, windows
