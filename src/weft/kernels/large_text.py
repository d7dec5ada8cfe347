"""Text and binary columns above 2 GiB, which must be wide: they need Arrow's large types, with 64-bit offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

MOST_BYTES = 2**31 - 1
"""The number of bytes that an array with 32-bit offsets can hold."""
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_NARROW = {wide: plain for plain, wide in _WIDE.items()}

Longs = npt.NDArray[np.int64]


def has_variable_length(kind: pa.DataType) -> bool:
    """Return whether values of a type are text or bytes of variable length."""
    return kind in _WIDE or kind in _NARROW


def lengths(column: pa.Array) -> Longs:
    """Return the number of bytes of each row; for nested columns, the average per row."""
    kind = column.type
    if has_variable_length(kind):
        if len(column) == 0:
            return np.zeros(0, np.int64)
        dtype = np.int32 if kind in _WIDE else np.int64
        offsets = np.frombuffer(column.buffers()[1], dtype, column.offset + len(column) + 1)[column.offset :]
        return np.diff(offsets).astype(np.int64, copy=False)
    try:
        width = -(-kind.bit_width // 8)
    except ValueError:
        width = -(-column.nbytes // max(1, len(column)))
    return np.full(len(column), width, np.int64)


def is_fixed(kind: pa.DataType) -> bool:
    """Return whether all values of a type take the same number of bytes."""
    return not has_variable_length(kind) and not pt.is_nested(kind)


def take(column: pa.Array, rows: npt.NDArray[Any]) -> pa.Array:
    """Return the given rows of a column, in this order; the result is wide if it exceeds `MOST_BYTES`."""
    if column.type in _WIDE and int(lengths(column)[rows].sum()) > MOST_BYTES:
        column = column.cast(_WIDE[column.type])
    return column.take(pa.array(rows))


def concat_columns(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate columns of one type, wide or not; the result is wide only if it exceeds `MOST_BYTES`."""
    kinds = {array.type for array in arrays}
    plain_kinds = {_NARROW.get(kind, kind) for kind in kinds}
    if len(plain_kinds) == 1 and has_variable_length(kind := plain_kinds.pop()):
        if sum(int(lengths(array).sum()) for array in arrays) > MOST_BYTES:
            kind = _WIDE[kind]
        arrays = [array if array.type == kind else array.cast(kind) for array in arrays]
    return pa.concat_arrays(list(arrays))


def narrow(column: pa.Array) -> pa.Array:
    """Cast a wide column to its plain type if it fits; return any other column unchanged."""
    if column.type in _NARROW and int(lengths(column).sum()) <= MOST_BYTES:
        return column.cast(_NARROW[column.type])
    return column


def cut(sizes: Longs, most: int) -> list[slice]:
    """Divide consecutive rows into ranges of at most `most` bytes each; a larger row is a range of its own."""
    ends = np.cumsum(sizes)
    ranges, begin = list[slice](), 0
    while begin < len(sizes):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        ranges.append(slice(begin, end))
        begin = end
    return ranges
