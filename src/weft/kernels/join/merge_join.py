"""Merge join of two buckets, which finds the pairs of rows that some query wants.

Both sides are in (hash, time) order. A pair is kept if some slot is in both query-sets, in the mask of the two buckets
and in the window table's set for their times. The join does not record these slots: a reader computes its own pairs
from the rows (`select_pairs`), so the test stops at the first common bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numba as nb
import numpy as np
import numpy.typing as npt

from weft.kernels.bitset import Words
from weft.kernels.join.window_table import Times, WindowTable, common
from weft.kernels.key_hash import frozen
from weft.plan.time import TIME_MAX, TIME_MIN

Rows = npt.NDArray[np.int32]
_Lane = tuple[npt.NDArray[np.uint64], Times, Words, Rows]
_Steps = tuple[Times, Times, Words]
_Distances = tuple[Times, Times, int, Words, Words, Words]
_Windows = tuple[_Distances, Times, _Steps, _Steps]

_CHUNK = 4_000_000
_NO_ROWS = frozen(np.empty(0), np.int32)
_LINEAR = 12
_GALLOP = 16
_TURN = 4096


@dataclass(frozen=True, slots=True, eq=False)
class JoinSide:
    """One bucket in the order of an index: `h` ascending, times ascending among equal hashes.

    `rows` are the row numbers in index order, or None if the rows are stored in that order; `t` and `sets` are by
    row number.
    """

    h: npt.NDArray[np.uint64]
    t: Times
    sets: Words
    rows: Rows | None = None

    def order(self) -> Rows:
        """Return the row numbers in index order."""
        return np.arange(len(self.h), dtype=np.int32) if self.rows is None else self.rows


def join_pairs(left: JoinSide, right: JoinSide, table: WindowTable, mask: Words) -> tuple[Rows, Rows]:
    """Return the row numbers of all pairs that some slot of the mask admits, by hash, then by left and right time."""
    pieces = list(iter_pairs(left, right, table, mask))
    if len(pieces) == 1:
        return pieces[0]
    empty = np.empty(0, np.int32)
    return (
        np.concatenate([empty, *(first for first, _ in pieces)]),
        np.concatenate([empty, *(second for _, second in pieces)]),
    )


def iter_pairs(
    left: JoinSide, right: JoinSide, table: WindowTable, mask: Words, *, chunk: int = _CHUNK
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs of `join_pairs` in nonempty pieces of at most `chunk` pairs."""
    admitted = common(table.masks, mask)
    ranks = np.flatnonzero(admitted.any(axis=1))
    if len(ranks) == 0:
        return
    low = int(table.cuts[ranks[0] - 1]) if ranks[0] > 0 else TIME_MIN
    high = int(table.cuts[ranks[-1]]) - 1 if ranks[-1] < len(table.cuts) else TIME_MAX
    lanes, windows = (_lane(left), _lane(right)), _windows(table)
    words = min(left.sets.shape[1], right.sets.shape[1], admitted.shape[1])
    wanted = frozen(np.bitwise_or.reduce(admitted)[:words], np.uint64)
    decided = len(ranks) == 1 and len(table.slides) == 0
    state = np.zeros(5, np.int64)
    # Start small: fresh memory costs more than the join of two small buckets.
    capacity = min(chunk, 2 * (len(left.h) + len(right.h)))
    while state[0] < len(left.h):
        ia, ib = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
        count = _fill(*lanes, windows, wanted, low, high, decided, state, ia, ib)
        if count:
            yield ia[:count], ib[:count]
        capacity = min(chunk, 4 * capacity)


def _lane(side: JoinSide) -> _Lane:
    rows = _NO_ROWS if side.rows is None else side.rows
    return frozen(side.h, np.uint64), frozen(side.t, np.int64), frozen(side.sets, np.uint64), frozen(rows, np.int32)


@lru_cache(maxsize=256)
def _windows(table: WindowTable) -> _Windows:
    sizes, starts = table.sizes, table.starts
    distances = (
        frozen(table.cuts, np.int64),
        frozen(table.cuts[table.block - 1 :: table.block], np.int64),
        table.block,
        frozen(table.sure, np.uint64),
        frozen(table.plain, np.uint64),
        frozen(table.sliding, np.uint64),
    )
    return (
        distances,
        frozen(table.slides, np.int64),
        (frozen(sizes.cuts, np.int64), frozen(sizes.ends, np.int64), frozen(sizes.sets, np.uint64)),
        (frozen(starts.cuts, np.int64), frozen(starts.ends, np.int64), frozen(starts.sets, np.uint64)),
    )


@nb.njit(cache=True, nogil=True)
def clamped_difference(first: int, second: int) -> int:
    """Return first - second, clamped to the range of times."""
    # Check before subtracting: compiled code may assume that a subtraction does not overflow.
    if second > 0 and first < TIME_MIN + second:
        return TIME_MIN
    if second < 0 and first > TIME_MAX + second:
        return TIME_MAX
    return first - second


@nb.njit(cache=True, nogil=True)
def rank_among(cuts: Times, begin: int, end: int, x: int) -> int:
    """Return the rank of x: the number of cuts[begin:end] that are <= x."""
    if end - begin <= _LINEAR:
        rank = 0
        for k in range(begin, end):
            rank += cuts[k] <= x
        return rank
    base, size = begin, end - begin
    while size > 1:
        half = size // 2
        base += half if cuts[base + half - 1] <= x else 0
        size -= half
    return base - begin + (1 if cuts[base] <= x else 0)


@nb.njit(cache=True, nogil=True)
def _seek(h: npt.NDArray[np.uint64], at: int, key: np.uint64) -> int:
    """Return the first position from `at` on whose hash is >= key, by a search that is fastest for near positions."""
    step = 1
    while at + step < len(h) and h[at + step] < key:
        at += step
        step *= 2
    low, high = at, min(at + step, len(h))
    while low < high:
        middle = (low + high) // 2
        if h[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@nb.njit(cache=True, nogil=True)
def _run_end(h: npt.NDArray[np.uint64], at: int) -> int:
    """Return the first position after `at` with another hash."""
    key, near = h[at], min(at + _GALLOP, len(h))
    for k in range(at + 1, near):
        if h[k] != key:
            return k
    if near == len(h) or key == np.uint64(0xFFFFFFFFFFFFFFFF):
        return len(h)
    return _seek(h, near - 1, key + np.uint64(1))


@nb.njit(cache=True, nogil=True)
def _first_since(t: Times, rows: Rows, begin: int, end: int, floor: int) -> int:
    """Return the first position of begin:end whose time is >= floor, by a search that is fastest for near positions."""
    indexed = len(rows) > 0
    step, low = 1, begin
    while low < end and t[rows[low] if indexed else low] < floor:
        begin = low + 1
        low += step
        step *= 2
    low, high = begin, min(low, end)
    while low < high:
        middle = (low + high) // 2
        if t[rows[middle] if indexed else middle] < floor:
            low = middle + 1
        else:
            high = middle
    return low


@nb.njit(cache=True, nogil=True)
def _fill(
    left: _Lane,
    right: _Lane,
    windows: _Windows,
    wanted: Words,
    low: int,
    high: int,
    decided: bool,
    state: Times,
    ia: Rows,
    ib: Rows,
) -> int:
    """Write pairs until the output is full or a side is exhausted; return the number of pairs.

    If `decided`, `low` and `high` alone tell which times are admitted. Otherwise `_match` and `_admit` alternate every
    few thousand pairs, so that `_admit` finds the rows still in the cache.
    """
    n = 0
    while n < len(ia) and state[0] < len(left[0]):
        end = len(ia) if decided else min(n + _TURN, len(ia))
        count = _match(left, right, wanted, low, high, state, ia[n:end], ib[n:end])
        if not decided:
            count = _admit(left, right, windows, wanted, ia[n : n + count], ib[n : n + count])
        n += count
    return n


@nb.njit(cache=True, nogil=True)
def _match(left: _Lane, right: _Lane, wanted: Words, low: int, high: int, state: Times, ia: Rows, ib: Rows) -> int:
    """Write pairs with equal hashes, a distance in low:high and a common wanted slot, until the output is full.

    `state` is where to resume: the left position (past the end when done); begin and end of the right run with its
    hash; the first position of the run that is not too old for the left row; the next position to test.
    """
    hl, tl, sl, rl = left
    hr, tr, sr, rr = right
    indexed_l, indexed_r = len(rl) > 0, len(rr) > 0
    gallop_l, gallop_r = len(hl) > _GALLOP * len(hr), len(hr) > _GALLOP * len(hl)
    # A left row outside these limits would only pair with rows outside the range of times.
    earliest, latest = TIME_MIN + max(low, 0), TIME_MAX + min(high, 0)
    i, j, end, begin, m = state
    n = 0
    while i < len(hl) and j < len(hr):
        if end <= j:
            if hl[i] != hr[j]:
                if gallop_l and hl[i] < hr[j]:
                    i = _seek(hl, i, hr[j])
                elif gallop_r and hl[i] > hr[j]:
                    j = _seek(hr, j, hl[i])
                else:
                    # Which side is behind is unpredictable: adding is faster than branching.
                    behind = hl[i] < hr[j]
                    i, j = i + behind, j + (not behind)
                continue
            end, begin, m = _run_end(hr, j), j, j
        a = rl[i] if indexed_l else i
        oldest = clamped_difference(tl[a], high) if high < TIME_MAX else TIME_MIN
        newest = clamped_difference(tl[a], low) if low > TIME_MIN else TIME_MAX
        stop = end
        if tl[a] < earliest or tl[a] > latest:
            stop = begin
        elif end - j > _GALLOP:
            begin = _first_since(tr, rr, begin, end, oldest)
            if newest < TIME_MAX:
                stop = _first_since(tr, rr, begin, end, newest + 1)
        m = max(m, begin)
        limit = min(stop, m + len(ia) - n)
        while m < limit:
            b = rr[m] if indexed_r else m
            shared = sl[a, 0] & sr[b, 0] & wanted[0]
            w = 1
            while shared == 0 and w < len(wanted):
                shared = sl[a, w] & sr[b, w] & wanted[w]
                w += 1
            # Write each pair and count it only if it qualifies, to avoid another unpredictable branch.
            ia[n], ib[n] = a, b
            n += (oldest <= tr[b]) & (tr[b] <= newest) & (shared != 0)
            m += 1
        if limit < stop:
            state[:] = i, j, end, begin, m
            return n
        i += 1
        m = begin
        if i == len(hl) or hl[i] != hr[j]:
            j = end
    state[0] = len(hl)
    return n


@nb.njit(cache=True, nogil=True)
def _meet(first: Words, a: int, second: Words, b: int, mask: Words, sets: Words, row: int) -> bool:
    """Return whether two rows' query-sets, the mask and one row of `sets` have a slot in common."""
    for w in range(len(mask)):  # noqa: SIM110 - numba has no any()
        if first[a, w] & second[b, w] & mask[w] & sets[row, w]:
            return True
    return False


@nb.njit(cache=True, nogil=True)
def _admit(left: _Lane, right: _Lane, windows: _Windows, mask: Words, ia: Rows, ib: Rows) -> int:
    """Move the pairs that some slot of the mask admits to the front of the arrays; return their number."""
    _, tl, sl, _ = left
    _, tr, sr, _ = right
    (cuts, block_cuts, block, sure, plain, sliding), slides, sizes, starts = windows
    size_cuts, size_ends, size_sets = sizes
    start_cuts, start_ends, start_sets = starts
    n = 0
    for k in range(len(ia)):
        a, b = ia[k], ib[k]
        distance = clamped_difference(tl[a], tr[b])
        block_rank = rank_among(block_cuts, 0, len(block_cuts), distance)
        hit = _meet(sl, a, sr, b, mask, sure, block_rank)
        rank = block_rank * block
        if block > 1 and not hit:
            rank += rank_among(cuts, rank, min(rank + block - 1, len(cuts)), distance)
            hit = _meet(sl, a, sr, b, mask, plain, rank)
        earlier, later = min(tl[a], tr[b]), max(tl[a], tr[b])
        g = 0
        while not hit and g < len(slides):
            offset = earlier % slides[g]
            # A window that begins before the earliest time cannot be represented, and no query reports it.
            if earlier >= TIME_MIN + offset:
                begin = earlier - offset
                size_row = (
                    size_ends[g]
                    + g
                    + rank_among(size_cuts, size_ends[g], size_ends[g + 1], clamped_difference(later, begin))
                )
                start_row = start_ends[g] + g + rank_among(start_cuts, start_ends[g], start_ends[g + 1], begin)
                for w in range(len(mask)):
                    shared = sl[a, w] & sr[b, w] & mask[w] & sliding[rank, w]
                    if shared & size_sets[size_row, w] & start_sets[start_row, w]:
                        hit = True
                        break
            g += 1
        ia[n], ib[n] = a, b
        n += hit
    return n
