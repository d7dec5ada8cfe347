"""A lookup table of the queries whose windows admit a pair of rows, so that no pair is tested query by query.

All live windows are sorted once. The rank of a pair's distance in time among the ends of all bounds gives the set of
slots that admit it. Sliding windows need more than the distance: for each distinct slide, the last window that begins
at or before the earlier row decides (an earlier window ends earlier). The rank of the later row's distance from the
beginning of this window, among the window sizes, gives the set of slots.
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
    """A query's condition on a pair: a distance within `bounds` and a common window that begins at `start` or later."""

    slot: int
    bounds: TimeBounds
    sliding: Sliding | None
    start: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Step functions whose values are query-sets, called lines and stored one after another.

    Line g has the cuts cuts[ends[g]:ends[g + 1]] and one set more than cuts, from row ends[g] + g on. The set at x is
    the one at the rank of x, the number of cuts <= x.
    """

    cuts: Times
    ends: Times
    sets: Words


@dataclass(frozen=True, slots=True, eq=False)
class WindowTable:
    """Query-sets by distance t_left - t_right, and the further conditions of sliding windows."""

    words: int
    cuts: Times
    plain: Words
    """[rank, word]: slots whose bounds admit the distance and that have no other condition."""
    sliding: Words
    """[rank, word]: slots whose bounds admit the distance and that also require a common window."""
    block: int
    """The number of ranks in a block. With many windows, the `sure` set of their block decides most pairs."""
    sure: Words
    """[block, word]: the plain slots that admit all distances of the block."""
    slides: Times
    sizes: Steps
    """Per slide: slots whose windows are longer than the distance of a row from the beginning of the window."""
    starts: Steps
    """Per slide: slots that report a window that begins at a given time."""

    @property
    def masks(self) -> Words:
        """[rank, word]: all slots whose bounds admit the distance."""
        return self.plain | self.sliding

    @property
    def low(self) -> int | None:
        """The smallest distance that some slot admits, None if unlimited; more than `high` if no slot admits any."""
        ranks = self._ranks()
        if len(ranks) == 0:
            return 0
        return None if ranks[0] == 0 else int(self.cuts[ranks[0] - 1])

    @property
    def high(self) -> int | None:
        """The largest distance that some slot admits, None if unlimited."""
        ranks = self._ranks()
        if len(ranks) == 0:
            return -1
        return None if ranks[-1] == len(self.cuts) else int(self.cuts[ranks[-1]]) - 1

    def reachable(self, *, min_l: int, max_l: int, min_r: int, max_r: int, mask: Words | None = None) -> bool:
        """Return whether rows of these time ranges can be a pair for some slot (of the mask)."""
        first, last = bisect_right(self.cuts, min_l - max_r), bisect_right(self.cuts, max_l - min_r)
        sets = self.masks[first : last + 1]
        return bool(sets.any() if mask is None else common(sets, mask).any())

    def _ranks(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self.masks.any(axis=1))


def window_ends(starts: Times, length: int) -> Times:
    """Return the ends of windows of the given length, clamped to the latest time."""
    ends: Times = np.minimum(starts, TIME_MAX - length) + length
    return ends


def common(sets: Words, mask: Words) -> Words:
    """Return the rows of `sets` ANDed with a mask, with as many words as both have."""
    words = min(sets.shape[-1], len(mask))
    return sets[..., :words] & mask[:words]


def build_window_table(entries: Sequence[WindowEntry], words: int) -> WindowTable:
    """Return the table of all live windows between two inputs; a slot may have only one entry."""
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
    """The numbers from `low` to `high`, both included, that a slot admits; TIME_MIN and TIME_MAX mean unlimited."""

    slot: int
    low: int
    high: int


def _distances(slot: int, bounds: TimeBounds) -> _Interval:
    return _Interval(
        slot, TIME_MIN if bounds.low is None else bounds.low, TIME_MAX if bounds.high is None else bounds.high
    )


def _cuts(intervals: Sequence[_Interval]) -> list[int]:
    """Return where the set of admitting slots changes; TIME_MIN is never a cut, because rank 0 begins there."""
    ends = {end for _, low, high in intervals if low <= high for end in (low, high + 1)}
    return sorted(end for end in ends if TIME_MIN < end <= TIME_MAX)


def _sets(intervals: Sequence[_Interval], cuts: list[int], words: int) -> Words:
    """Return, for each rank among the cuts, the slots that admit it."""
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
