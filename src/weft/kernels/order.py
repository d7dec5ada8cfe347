"""The sort order of a bucket: rows by (hash of the key, event time)."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from weft.errors import InternalError
from weft.kernels.key_hash import frozen

_MAX_ROWS = 2**31 - 1
_FEW = 24


def sort_order(h: npt.NDArray[np.uint64], t: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return the permutation that sorts rows stably by (h, t)."""
    if len(h) > _MAX_ROWS:
        raise InternalError(f"a bucket of {len(h)} rows is larger than {_MAX_ROWS}")
    return _sort_order(frozen(h, np.uint64), frozen(t, np.int64))


@nb.njit(cache=True, nogil=True)
def _sort_order(h: npt.NDArray[np.uint64], t: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Distribute rows to groups by the leading bits of their hashes, then sort each group.

    Hashes are spread evenly, so most groups have few rows. Small groups are sorted by insertion, which is fast because
    rows mostly arrive in time order; large groups, full of rows of a hot key, are merge sorted.
    """
    n = len(h)
    order = np.empty(n, np.int32)
    if n == 0:
        return order
    low, high = h[0], h[0]
    for i in range(n):
        low, high = min(low, h[i]), max(high, h[i])
    shift = np.uint64(0)
    while (high - low) >> shift > np.uint64(n // 2):
        shift += np.uint64(1)
    starts = np.zeros(((high - low) >> shift) + np.uint64(2), np.int32)
    for i in range(n):
        starts[((h[i] - low) >> shift) + np.uint64(1)] += 1
    for group in range(1, len(starts)):
        starts[group] += starts[group - 1]
    # Hashes are moved along with row numbers, because comparing them in place is faster than looking them up by row.
    placed = np.empty(n, np.uint64)
    for i in range(n):
        group = (h[i] - low) >> shift
        at = starts[group]
        order[at], placed[at] = i, h[i]
        starts[group] = at + 1
    begin = 0
    for group in range(len(starts) - 1):
        end = starts[group]
        if end - begin > _FEW:
            _merge(h, t, order[begin:end])
        else:
            _insert(placed, t, order, begin, end)
        begin = end
    return order


@nb.njit(cache=True, nogil=True)
def _insert(
    placed: npt.NDArray[np.uint64], t: npt.NDArray[np.int64], order: npt.NDArray[np.int32], begin: int, end: int
) -> None:
    """Sort order[begin:end] by insertion; placed[k] is the hash of row order[k]."""
    for k in range(begin + 1, end):
        key, row, at = placed[k], order[k], k
        while at > begin and (placed[at - 1] > key or (placed[at - 1] == key and t[order[at - 1]] > t[row])):
            placed[at], order[at] = placed[at - 1], order[at - 1]
            at -= 1
        placed[at], order[at] = key, row


@nb.njit(cache=True, nogil=True)
def _after(h: npt.NDArray[np.uint64], t: npt.NDArray[np.int64], first: int, second: int) -> bool:
    return bool(h[first] > h[second] or (h[first] == h[second] and t[first] > t[second]))


@nb.njit(cache=True, nogil=True)
def _merge(h: npt.NDArray[np.uint64], t: npt.NDArray[np.int64], order: npt.NDArray[np.int32]) -> None:
    """Sort `order` by bottom-up merging; skip neighbouring runs that are already in order."""
    n = len(order)
    spare = np.empty(n, np.int32)
    width = 1
    while width < n:
        for begin in range(0, n - width, 2 * width):
            middle, end = begin + width, min(begin + 2 * width, n)
            if not _after(h, t, order[middle - 1], order[middle]):
                continue
            spare[begin:middle] = order[begin:middle]
            left, right = begin, middle
            for at in range(begin, end):
                if right >= end or (left < middle and not _after(h, t, spare[left], order[right])):
                    order[at] = spare[left]
                    left += 1
                else:
                    order[at] = order[right]
                    right += 1
        width *= 2
