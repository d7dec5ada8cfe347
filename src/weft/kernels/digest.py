"""XXH64 digests of bytes, to detect damaged files, computed at several gigabytes per second.

Digests are stored on disk, so the algorithm must never change. They detect accidental damage, not tampering.
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
    """Return the digest of an object that supports the buffer protocol."""
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
        state = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        for lane in (a, b, c, d):
            state = (state ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        state = _P5
    state += np.uint64(count)
    while at < len(words):
        state = _rotated(state ^ _round(np.uint64(0), words[at]), 27) * _P1 + _P4
        at += 1
    offset = at * 8
    if offset + 4 <= count:
        word = np.uint64(0)
        for byte in range(4):
            word |= np.uint64(data[offset + byte]) << np.uint64(8 * byte)
        state = _rotated(state ^ (word * _P1), 23) * _P2 + _P3
        offset += 4
    while offset < count:
        state = _rotated(state ^ (np.uint64(data[offset]) * _P5), 11) * _P1
        offset += 1
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    return state ^ (state >> np.uint64(32))
