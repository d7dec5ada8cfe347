"""Query-sets of combinations, computed from the query-sets and windows of the combined rows."""

from __future__ import annotations

from collections.abc import Iterable

import numba as nb
import numpy as np
import numpy.typing as npt

from weft.kernels.bitset import Words
from weft.kernels.join.merge_join import clamped_difference, rank_among
from weft.kernels.join.window_table import Times, WindowTable
from weft.kernels.key_hash import frozen

Rows = npt.NDArray[np.int32]
Distances = Iterable[tuple[Times, Times, WindowTable]]
"""Event times by left row, event times by right row, and the window table for the distance between them."""


def combine_sets(left: Words, right: Words, mask: Words, *, pairs: tuple[Rows, Rows], distances: Distances) -> Words:
    """Return, for each pair of rows, the slots in both query-sets and in the mask whose windows admit all distances.

    A distance is t[left row] − t[right row] for one entry of `distances`; the entry's window table must admit it.
    """
    words = min(left.shape[1], right.shape[1], len(mask))
    first, second = frozen(pairs[0], np.int32), frozen(pairs[1], np.int32)
    sets = np.zeros((len(first), left.shape[1]), np.uint64)
    _common(frozen(left, np.uint64), frozen(right, np.uint64), frozen(mask, np.uint64), first, second, words, sets)
    for left_times, right_times, table in distances:
        lefts, rights = frozen(left_times, np.int64), frozen(right_times, np.int64)
        _within(lefts, rights, frozen(table.cuts, np.int64), frozen(table.masks, np.uint64), first, second, sets)
    return sets


@nb.njit(cache=True, nogil=True)
def _common(left: Words, right: Words, mask: Words, first: Rows, second: Rows, words: int, sets: Words) -> None:
    for k in range(len(first)):
        for w in range(words):
            sets[k, w] = left[first[k], w] & right[second[k], w] & mask[w]


@nb.njit(cache=True, nogil=True)
def _within(
    lefts: Times, rights: Times, cuts: Times, masks: Words, first: Rows, second: Rows, sets: Words
) -> None:  # fmt: skip
    words = min(sets.shape[1], masks.shape[1])
    for k in range(len(first)):
        rank = (
            rank_among(cuts, 0, len(cuts), clamped_difference(lefts[first[k]], rights[second[k]])) if len(cuts) else 0
        )
        for w in range(words):
            sets[k, w] &= masks[rank, w]
        for w in range(words, sets.shape[1]):
            sets[k, w] = 0
