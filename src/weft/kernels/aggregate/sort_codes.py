"""Values as 64-bit words in their SQL order, so that aggregation works on one kind of array.

Types that fit into 64 bits are mapped one to one. Other values (text, bytes, long decimals) are numbered in a sorted
dictionary; `unify` maps the words of several dictionaries to those of a common one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from weft.kernels import large_text as wide

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WIDEST_DECIMAL = 18
_ALL_BUT_SIGN = np.int64(2**63 - 1)


def distinct(values: Longs) -> Longs:
    """Return the distinct values, sorted. `np.unique` hashes first and takes ten times as long on large arrays."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


@dataclass(frozen=True, slots=True, eq=False)
class CodeColumn:
    """One word per row. `valid` is None if no row is NULL; `dictionary` holds the values if words are numbers of it."""

    words: Longs
    valid: Flags | None
    dictionary: pa.Array | None


def is_direct(type_: pa.DataType) -> bool:
    """Return whether values of this type map to words without a dictionary."""
    if pt.is_decimal(type_):
        return bool(type_.precision <= _WIDEST_DECIMAL)
    return any(
        test(type_)
        for test in (pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_date32, pt.is_timestamp, pt.is_null)
    )


def to_codes(column: pa.Array) -> CodeColumn:
    """Return the words of a column, in the order of its values; NaN is the largest number, as in Spark."""
    valid = None if column.null_count == 0 else np.asarray(column.is_valid())
    if is_direct(column.type):
        return CodeColumn(_direct(column), valid, None)
    encoded = column.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    words = rank[codes] if len(rank) else np.zeros(len(column), np.int64)
    return CodeColumn(words, valid, encoded.dictionary.take(order))


def from_codes(words: Longs, type_: pa.DataType, dictionary: pa.Array | None, valid: Flags | None) -> pa.Array:
    """Return the values of words (the inverse of `to_codes`), NULL where not valid."""
    missing = None if valid is None else ~valid
    if dictionary is not None:
        numbers = np.where(valid, words, 0) if valid is not None else words
        return dictionary.take(pa.array(numbers, mask=missing)).cast(type_)
    if pt.is_null(type_):
        return pa.nulls(len(words), type_)
    if pt.is_floating(type_):
        return pa.array(_to_floats(words), mask=missing).cast(type_)
    if pt.is_decimal(type_):
        return to_decimals(words, type_, missing)
    if pt.is_boolean(type_):
        return pa.array(words != 0, mask=missing)
    numbers = pa.array(words if valid is None else np.where(valid, words, 0), mask=missing)
    return numbers.cast(pa.int32()).cast(type_) if pt.is_date32(type_) else numbers.cast(type_)


def unify_codes(dictionaries: Sequence[pa.Array]) -> tuple[pa.Array, list[Longs]]:
    """Merge sorted dictionaries into one; return the merged one and the new numbers of each dictionary's entries."""
    values = wide.concat_columns(dictionaries)
    codes = to_codes(values)
    assert codes.dictionary is not None
    cuts = np.cumsum([0, *(len(dictionary) for dictionary in dictionaries)])
    return codes.dictionary, [codes.words[a:b] for a, b in pairwise(cuts)]


def to_decimals(words: Longs, type_: pa.DataType, missing: Flags | None) -> pa.Array:
    """Return unscaled 64-bit values as decimals of a type."""
    limbs = np.empty((len(words), 2), np.int64)
    limbs[:, 0] = words
    limbs[:, 1] = words >> np.int64(63)
    bitmap = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(type_, len(words), [bitmap, pa.py_buffer(limbs)])


def decimal_limbs(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the unscaled 128-bit values of a decimal column as rows of two words (low, high)."""
    values = column.buffers()[1]
    if len(column) == 0 or values is None:
        return np.zeros((len(column), 2), np.int64)
    words = np.frombuffer(values, np.int64, 2 * (column.offset + len(column)))
    return words.reshape(-1, 2)[column.offset :]


def to_doubles(column: pa.Array) -> npt.NDArray[np.float64]:
    """Return a numeric column as doubles, zero where it is NULL."""
    if pt.is_decimal(column.type):
        low, high = decimal_limbs(column).T
        large = high * 2.0**64 + low.astype(np.uint64)
        values = np.where(high == low >> np.int64(63), low, large) / 10.0**column.type.scale
        return values if column.null_count == 0 else np.where(np.asarray(column.is_valid()), values, 0.0)
    return plain_numbers(column).astype(np.float64)


def plain_numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return a numeric column as an array, zero where it is NULL."""
    filled: npt.NDArray[Any] = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    return filled


def _direct(column: pa.Array) -> Longs:
    type_ = column.type
    if pt.is_null(type_):
        return np.zeros(len(column), np.int64)
    if pt.is_decimal(type_):
        limbs = decimal_limbs(column)
        return np.ascontiguousarray(limbs[:, 0])
    if pt.is_floating(type_):
        return _from_floats(plain_numbers(column).astype(np.float64))
    if pt.is_boolean(type_):
        column = column.cast(pa.int8())
    elif pt.is_date32(type_):
        column = column.cast(pa.int32())
    elif pt.is_timestamp(type_):
        column = column.cast(pa.int64())
    return plain_numbers(column).astype(np.int64)


def _from_floats(values: npt.NDArray[np.float64]) -> Longs:
    """Return the bits of doubles, flipped if negative, so that they compare as integers in the order of the doubles."""
    with np.errstate(invalid="ignore"):
        values = values + 0.0  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan  # a single NaN, without sign bit: greater than infinity
    return _flipped(values.view(np.int64))


def _to_floats(words: Longs) -> npt.NDArray[np.float64]:
    floats: npt.NDArray[np.float64] = _flipped(words).view(np.float64)
    return floats


def _flipped(bits: Longs) -> Longs:
    return np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
