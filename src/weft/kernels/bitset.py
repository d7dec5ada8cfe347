"""Query-sets as Python integers (in plans) and as rows of little-endian 64-bit words (in arrays).

Slot s is bit s % 64 of word s // 64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

WORD_BITS = 64
_WORD = np.dtype("<u8")


def set_to_words(mask: int, words: int) -> Words:
    """Return the query-set `mask` as `words` words; raise OverflowError if a slot does not fit."""
    return np.frombuffer(mask.to_bytes(words * 8, "little"), dtype=_WORD).astype(np.uint64)


def set_from_words(row: Words) -> int:
    """Return the query-set of one row of words."""
    return int.from_bytes(np.ascontiguousarray(row, dtype=_WORD).tobytes(), "little")


def resized(sets: Words, words: int) -> Words:
    """Return the query-sets in rows of `words` words; a slot that is cut off belongs to no live query."""
    if sets.shape[1] >= words:
        return sets[:, :words]
    return np.hstack([sets, np.zeros((len(sets), words - sets.shape[1]), np.uint64)])


def rows_with_slot(sets: Words, slot: int) -> npt.NDArray[np.bool_]:
    """Return, for each row of `sets`, whether it contains the slot."""
    word, bit = divmod(slot, WORD_BITS)
    contained: npt.NDArray[np.bool_] = (sets[:, word] >> np.uint64(bit)) & np.uint64(1) != 0
    return contained
