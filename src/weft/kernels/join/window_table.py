"""Which queries' windows admit a pair of rows, looked up by rank instead of asked query by query.

All live windows are sorted once. A pair's distance in time, looked up by rank among the ends of all bounds, gives
the set of slots that admit it. Sliding windows need more than the distance: for each distinct slide, the last
window that begins at or before the earlier row decides (an earlier one ends earlier), and how far the later row lies
behind its beginning is looked up by rank among the sizes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import xor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InternalError
from weft.kernels.bitset import Words, set_to_words
from weft.kernels.key_hash import frozen
from weft.plan.time import TIME_MAX, TIME_MIN
from weft.plan.window import Sliding, TimeBounds, to_micros

Times = npt.NDArray[np.int64]

_BLOCKS = 12


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """What one query asks of a pair: distances within `bounds`, and a common window that begins at `start` or later."""

    slot: int
    bounds: TimeBounds
    sliding: Sliding | None
    start: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Sets that change at cut points, several such lines one after another.

    Line g has the cuts cuts[ends[g]:ends[g + 1]] and one set more than cuts, from row ends[g] + g on; the set at x
    is the one with the rank of x, the number of cuts <= x.
    """

    cuts: Times
    ends: Times
    sets: Words


@dataclass(frozen=True, slots=True, eq=False)
class WindowTable:
    """Sets of slots by distance t_left - t_right, and what sliding windows ask beyond it."""

    words: int
    cuts: Times
    plain: Words
    """[rank, word]: slots whose bounds admit the distance, and that is all they ask"""
    sliding: Words
    """[rank, word]: slots whose bounds admit the distance, and that also ask for a common window"""
    block: int
    """every so many ranks are a block; with more than a few windows most pairs need no more than theirs"""
    sure: Words
    """[block, word]: the plain slots that admit all distances of the block"""
    slides: Times
    sizes: Steps
    """per slide: slots whose windows are longer than a row's distance from the window's beginning"""
    starts: Steps
    """per slide: slots that report a window which begins at this time"""

    @property
    def masks(self) -> Words:
        """[rank, word]: all slots whose bounds admit the distance."""
        return self.plain | self.sliding

    @property
    def low(self) -> int | None:
        """The smallest distance some slot admits, None if unlimited; more than `high` if there is no slot."""
        ranks = self._ranks()
        if len(ranks) == 0:
            return 0
        return None if ranks[0] == 0 else int(self.cuts[ranks[0] - 1])

    @property
    def high(self) -> int | None:
        """The largest distance some slot admits, None if unlimited."""
        ranks = self._ranks()
        if len(ranks) == 0:
            return -1
        return None if ranks[-1] == len(self.cuts) else int(self.cuts[ranks[-1]]) - 1

    def reachable(self, *, min_l: int, max_l: int, min_r: int, max_r: int, mask: Words | None = None) -> bool:
        """Whether rows of these time ranges can be a pair for some slot (of the mask)."""
        first, last = bisect_right(self.cuts, min_l - max_r), bisect_right(self.cuts, max_l - min_r)
        sets = self.masks[first : last + 1]
        return bool(sets.any() if mask is None else common(sets, mask).any())

    def _ranks(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self.masks.any(axis=1))


def window_ends(starts: Times, length: int) -> Times:
    """Where windows of a length end, held at the latest time there is."""
    ends: Times = np.minimum(starts, TIME_MAX - length) + length
    return ends


def common(sets: Words, mask: Words) -> Words:
    """Rows of sets ANDed with a mask, as many words as both have."""
    words = min(sets.shape[-1], len(mask))
    return sets[..., :words] & mask[:words]


def build_window_table(entries: Sequence[WindowEntry], words: int) -> WindowTable:
    """The table of all live windows between two streams; a slot may ask once."""
    if len({entry.slot for entry in entries}) < len(entries):
        raise InternalError("a slot has more than one entry in a window table")
    plain = [_distances(entry.slot, entry.bounds) for entry in entries if entry.sliding is None]
    sliding: list[_Interval] = []
    sizes: defaultdict[int, list[_Interval]] = defaultdict(list)
    starts: defaultdict[int, list[_Interval]] = defaultdict(list)
    for entry in entries:
        if entry.sliding is not None:
            slide, reach = min(to_micros(entry.sliding.slide), TIME_MAX), to_micros(entry.sliding.size) - 1
            sliding.append(_distances(entry.slot, entry.bounds.intersect(TimeBounds(-reach, reach))))
            sizes[slide].append(_Interval(entry.slot, TIME_MIN, reach))
            starts[slide].append(_Interval(entry.slot, TIME_MIN if entry.start is None else entry.start, TIME_MAX))
    cuts = _cuts([*plain, *sliding])
    slides = sorted(sizes)
    block = -(-(len(cuts) + 1) // _BLOCKS)
    plain_sets = _sets(plain, cuts, words)
    sure = np.bitwise_and.reduceat(plain_sets, np.arange(0, len(plain_sets), block))
    return WindowTable(
        words=words,
        cuts=frozen(np.array(cuts), np.int64),
        plain=plain_sets,
        sliding=_sets(sliding, cuts, words),
        block=block,
        sure=frozen(sure, np.uint64),
        slides=frozen(np.array(slides), np.int64),
        sizes=_steps([sizes[slide] for slide in slides], words),
        starts=_steps([starts[slide] for slide in slides], words),
    )


class _Interval(NamedTuple):
    """A slot that admits what lies between two numbers, both included; the least and largest time mean unlimited."""

    slot: int
    low: int
    high: int


def _distances(slot: int, bounds: TimeBounds) -> _Interval:
    return _Interval(
        slot, TIME_MIN if bounds.low is None else bounds.low, TIME_MAX if bounds.high is None else bounds.high
    )


def _cuts(intervals: Sequence[_Interval]) -> list[int]:
    """Where the set of admitting slots changes; nothing changes at the least time, where rank 0 begins."""
    ends = {end for _, low, high in intervals if low <= high for end in (low, high + 1)}
    return sorted(end for end in ends if TIME_MIN < end <= TIME_MAX)


def _sets(intervals: Sequence[_Interval], cuts: list[int], words: int) -> Words:
    """For every rank among the cuts, the slots that admit it."""
    changes = [0] * (len(cuts) + 1)
    for slot, low, high in intervals:
        if low <= high and low <= TIME_MAX and high >= TIME_MIN:
            changes[bisect_right(cuts, low)] ^= 1 << slot
            if high < TIME_MAX:
                changes[bisect_right(cuts, high + 1)] ^= 1 << slot
    return frozen(np.stack([set_to_words(mask, words) for mask in accumulate(changes, xor)]), np.uint64)


def _steps(lines: Sequence[Sequence[_Interval]], words: int) -> Steps:
    cuts = [_cuts(line) for line in lines]
    sets = [_sets(line, line_cuts, words) for line, line_cuts in zip(lines, cuts, strict=True)]
    return Steps(
        cuts=frozen(np.array([cut for line_cuts in cuts for cut in line_cuts]), np.int64),
        ends=frozen(np.cumsum([0, *map(len, cuts)]), np.int64),
        sets=frozen(np.concatenate([np.empty((0, words), np.uint64), *sets]), np.uint64),
    )
