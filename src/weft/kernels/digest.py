"""A 64-bit digest of bytes, to find damage: XXH64 as its specification has it, at several gigabytes a second.

Digests are stored on disk, so what is computed here may never change. They protect from accidents, not from people.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from weft.kernels.key_hash import frozen

Bytes = npt.NDArray[np.uint8]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def digest(data: Any) -> int:
    """The digest of anything with a buffer of bytes."""
    values = np.frombuffer(data, np.uint8)
    if values.ctypes.data % 8:
        values = values.copy()
    return int(_digest(frozen(values, np.uint8)))


@nb.njit(cache=True, nogil=True, inline="always")
def _rotated(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@nb.njit(cache=True, nogil=True, inline="always")
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated(lane + word * _P2, 31) * _P1


@nb.njit(cache=True, nogil=True)
def _digest(data: Bytes) -> np.uint64:
    count = len(data)
    words = data[: count // 8 * 8].view(np.uint64)
    at = 0
    if count >= 32:
        a, b, c, d = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
        stripes = count // 32
        for stripe in range(stripes):
            at = stripe * 4
            a = _round(a, words[at])
            b = _round(b, words[at + 1])
            c = _round(c, words[at + 2])
            d = _round(d, words[at + 3])
        at = stripes * 4
        found = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        for lane in (a, b, c, d):
            found = (found ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        found = _P5
    found += np.uint64(count)
    while at < len(words):
        found = _rotated(found ^ _round(np.uint64(0), words[at]), 27) * _P1 + _P4
        at += 1
    left = at * 8
    if left + 4 <= count:
        word = np.uint64(0)
        for byte in range(4):
            word |= np.uint64(data[left + byte]) << np.uint64(8 * byte)
        found = _rotated(found ^ (word * _P1), 23) * _P2 + _P3
        left += 4
    while left < count:
        found = _rotated(found ^ (np.uint64(data[left]) * _P5), 11) * _P1
        left += 1
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))
