"""Query-sets: Python integers in plans, rows of little-endian 64-bit words in arrays.

Slot s is bit s % 64 of word s // 64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

WORD_BITS = 64
_WORD = np.dtype("<u8")


def words_for(slots: int) -> int:
    """How many words hold this many slots; at least one, so that arrays of sets are never without columns."""
    return max(1, -(-slots // WORD_BITS))


def to_words(mask: int, words: int) -> Words:
    """The bitset as `words` words; OverflowError when a slot lies beyond them."""
    return np.frombuffer(mask.to_bytes(words * 8, "little"), dtype=_WORD).astype(np.uint64)


def from_words(row: Words) -> int:
    """The bitset of one row of words."""
    return int.from_bytes(np.ascontiguousarray(row, dtype=_WORD).tobytes(), "little")


def to_mask(slots: Iterable[int]) -> int:
    """The bitset that holds these slots."""
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


def slots_of(mask: int) -> Iterator[int]:
    """The slots in a bitset, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def resized(sets: Words, words: int) -> Words:
    """The same sets in rows of `words` words; slots beyond them are nobody's any more."""
    if sets.shape[1] >= words:
        return sets[:, :words]
    return np.hstack([sets, np.zeros((len(sets), words - sets.shape[1]), np.uint64)])


def column_of(sets: Words, slot: int) -> npt.NDArray[np.bool_]:
    """For every row of sets, whether it holds the slot."""
    word, bit = divmod(slot, WORD_BITS)
    held: npt.NDArray[np.bool_] = (sets[:, word] >> np.uint64(bit)) & np.uint64(1) != 0
    return held
