"""One attribute of the index: its cut points, and the slots that each range of keys between two cuts satisfies."""

from __future__ import annotations

import decimal
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from weft.kernels.bitset import WORD_BITS, Words, set_to_words
from weft.kernels.expression.values import fixed_values, flat, valid_rows
from weft.kernels.selection.loops import float_keys, rank_bytes, rank_keys, take_ranks
from weft.kernels.selection.ranges import Key, Ranges
from weft.plan.expression import Expression
from weft.plan.slots import slot_numbers, slot_set

Ranks: TypeAlias = npt.NDArray[np.int32]
Longs: TypeAlias = npt.NDArray[np.int64]

_LARGEST = 2**63 - 1
# Cuts that span fewer than `_DIRECT` keys get one table entry per key; wider spans share about `_BUCKETS` entries.
_DIRECT, _BUCKETS = 1 << 15, 1 << 12
_NO_FLAGS = np.zeros(0, np.bool_)
_DECIMAL = np.dtype([("low", "<i8"), ("high", "<i8")])
_WIDEST_LONG_DECIMAL = 18
_EXACT = decimal.Context(prec=80)
_PHYSICAL = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class AttributeIndex:
    """Membership of slots along one attribute, pickled compactly as flips instead of tables.

    `expression` is None for the event time. `guards` are the conjuncts that must hold on a row before an expression
    that may raise is evaluated. `low` and `null` are the slots satisfied below the first cut and by NULL; both include
    all slots that this attribute does not concern. At `cuts[flip_at[k]]` the membership of `flip_slot[k]` changes.
    """

    expression: Expression | None
    guards: tuple[Expression, ...]
    concerned: int
    low: int
    null: int
    cuts: Longs | tuple[Key, ...]
    flip_at: npt.NDArray[np.int32]
    flip_slot: npt.NDArray[np.int32]

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def buckets(self) -> tuple[npt.NDArray[np.int32], int]:
        """The rank of the first key of each bucket, and the base-2 logarithm of the bucket width; for integer cuts."""
        assert isinstance(self.cuts, np.ndarray)
        offsets = self.cuts.view(np.uint64) - self.cuts[:1].view(np.uint64)
        span = int(offsets[-1])
        shift = 0 if span < _DIRECT else max(0, span.bit_length() - _BUCKETS.bit_length() + 1)
        count = (span >> shift) + 1
        begins = np.arange(count, dtype=np.uint64) << np.uint64(shift)
        ranks = np.searchsorted(offsets, begins, side="right")
        return np.append(ranks, len(offsets)).astype(np.int32), shift

    @cached_property
    def cut_bytes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """String or binary cuts as offsets and concatenated bytes."""
        texts = [cut.encode() if isinstance(cut, str) else bytes(cut) for cut in self.cuts]
        offsets = np.cumsum([0, *(len(text) for text in texts)], dtype=np.int64)
        return offsets, np.frombuffer(b"".join(texts) or b"\0", np.uint8)

    def table(self, words: int) -> Words:
        """Return one bitset per rank (0 … len(cuts)), followed by one for NULL."""
        rows = len(self.cuts) + 1
        table = np.zeros((rows + 1, words), np.uint64)
        table[0] = set_to_words(self.low, words)
        places = (self.flip_at.astype(np.int64) + 1) * words + self.flip_slot // WORD_BITS
        bits = np.left_shift(np.uint64(1), (self.flip_slot % WORD_BITS).astype(np.uint64))
        np.bitwise_xor.at(table.reshape(-1), places, bits)
        np.bitwise_xor.accumulate(table[:rows], axis=0, out=table[:rows])
        table[rows] = set_to_words(self.null, words)
        return table

    def places(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the words that hold a slot which this attribute concerns."""
        return np.array(sorted({slot // WORD_BITS for slot in slot_numbers(self.concerned)}), np.int64)

    def rank(self, values: pa.Array | Longs, ranks: Ranks) -> tuple[int, int]:
        """Write the rank of every row's value to `ranks`; return the smallest and the largest rank."""
        if isinstance(values, np.ndarray):
            return self._rank_longs(values, _NO_FLAGS, ranks)
        if pt.is_dictionary(values.type):
            if values.dictionary.null_count:
                return self.rank(flat(values), ranks)
            return self._rank_coded(values, ranks)
        if len(self.cuts) == 0 or pt.is_null(values.type):
            return self._rank_nulls(values, ranks)
        if isinstance(self.cuts, np.ndarray):
            valid = valid_rows(values)
            return self._rank_longs(_to_longs(values), _NO_FLAGS if valid is None else valid, ranks)
        return self._rank_coded(values.dictionary_encode(), ranks)

    def _rank_longs(self, keys: Longs, valid: npt.NDArray[np.bool_], ranks: Ranks) -> tuple[int, int]:
        if len(self.cuts) == 0:
            ranks[:] = 0
            return 0, 0
        starts, shift = self.buckets
        smallest, largest = rank_keys(keys, valid, self.cuts, starts, shift, ranks)
        return int(smallest), int(largest)

    def _rank_nulls(self, values: pa.Array, ranks: Ranks) -> tuple[int, int]:
        valid = valid_rows(values)
        if valid is None:
            ranks[:] = 0
            return 0, 0
        last = len(self.cuts) + 1
        ranks[:] = np.where(valid, 0, last)
        return 0 if valid.any() else last, last

    def _rank_coded(self, values: pa.DictionaryArray, ranks: Ranks) -> tuple[int, int]:
        distinct = np.zeros(len(values.dictionary), np.int32)
        self._rank_distinct(values.dictionary, distinct)
        indices = values.indices.cast(pa.int32())
        valid = valid_rows(indices)
        smallest, largest = take_ranks(
            fixed_values(indices, np.int32),
            _NO_FLAGS if valid is None else valid,
            distinct,
            len(self.cuts) + 1,
            ranks,
        )
        return int(smallest), int(largest)

    def _rank_distinct(self, values: pa.Array, ranks: Ranks) -> None:
        if len(self.cuts) == 0 or isinstance(self.cuts, np.ndarray):
            self.rank(values, ranks)
            return
        if pt.is_decimal(values.type):
            scale = values.type.scale
            exact = [int(value.scaleb(scale, context=_EXACT)) for value in values.to_pylist()]
            ranks[:] = [bisect_right(self.cuts, key) for key in exact]
            return
        texts = values.cast(pa.large_binary())
        _, offsets, data = texts.buffers()
        if len(texts) == 0 or offsets is None:
            return
        begins = np.frombuffer(offsets, np.int64, count=len(texts) + 1, offset=texts.offset * 8)
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        rank_bytes(begins, content, *self.cut_bytes, ranks)


def build_attribute(
    expression: Expression | None,
    guards: tuple[Expression, ...],
    *,
    members: Mapping[int, Ranges],
    everyone: int,
) -> AttributeIndex:
    """Build the attribute where each slot of `members` accepts its ranges and the rest of `everyone` accepts all."""
    concerned = slot_set(members)
    others = everyone & ~concerned
    low = slot_set(slot for slot, ranges in members.items() if ranges.low)
    null = slot_set(slot for slot, ranges in members.items() if ranges.null)
    wide = _is_wide(expression)
    flips = [
        (cut, slot) for slot, ranges in members.items() for cut in ranges.cuts if wide or cut != _LARGEST + 1
    ]  # no 64-bit key reaches the successor of the largest one
    cuts, flip_at = _sorted_cuts([cut for cut, _ in flips], wide=wide)
    slots = np.array([slot for _, slot in flips], np.int32)
    return AttributeIndex(expression, guards, concerned, others | low, others | null, cuts, flip_at, slots)


def _is_wide(expression: Expression | None) -> bool:
    return expression is not None and expression.type is not None and expression.type.precision > _WIDEST_LONG_DECIMAL


def _sorted_cuts(cuts: list[Key], *, wide: bool) -> tuple[Longs | tuple[Key, ...], npt.NDArray[np.int32]]:
    if cuts and (wide or not isinstance(cuts[0], int)):
        distinct = sorted(set(cuts))
        places = {cut: place for place, cut in enumerate(distinct)}
        return tuple(distinct), np.array([places[cut] for cut in cuts], np.int32)
    unique, inverse = np.unique(np.array(cuts, np.int64), return_inverse=True)
    return unique, inverse.astype(np.int32)


def _to_longs(values: pa.Array) -> Longs:
    type_ = values.type
    if pt.is_boolean(type_):
        return fixed_values(values.cast(pa.uint8()), np.uint8).astype(np.int64)
    if pt.is_floating(type_):
        bits = fixed_values(values.cast(pa.float64()), np.int64)
        keys = np.empty(len(values), np.int64)
        float_keys(bits, keys)
        return keys
    if pt.is_decimal(type_):
        return np.ascontiguousarray(fixed_values(values, _DECIMAL)["low"])
    return fixed_values(values, _PHYSICAL[type_.byte_width]).astype(np.int64, copy=False)
