"""Text and bytes of more than 2 GiB: Arrow's plain types have 32-bit offsets, so beyond that they are made wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

MOST_BYTES = 2**31 - 1
"""Bytes of text that one array with 32-bit offsets can hold."""
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_NARROW = {wide: plain for plain, wide in _WIDE.items()}

Longs = npt.NDArray[np.int64]


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text or bytes of any length, with offsets."""
    return kind in _WIDE or kind in _NARROW


def lengths(column: pa.Array) -> Longs:
    """Bytes of each row; of nested columns about as many as there are on the average."""
    kind = column.type
    if is_text(kind):
        if len(column) == 0:
            return np.zeros(0, np.int64)
        dtype = np.int32 if kind in _WIDE else np.int64
        cuts = np.frombuffer(column.buffers()[1], dtype, column.offset + len(column) + 1)[column.offset :]
        return np.diff(cuts).astype(np.int64, copy=False)
    try:
        width = -(-kind.bit_width // 8)
    except ValueError:
        width = -(-column.nbytes // max(1, len(column)))
    return np.full(len(column), width, np.int64)


def is_fixed(kind: pa.DataType) -> bool:
    """Whether all values of a type take the same number of bytes."""
    return not is_text(kind) and not pt.is_nested(kind)


def take(column: pa.Array, rows: npt.NDArray[Any]) -> pa.Array:
    """Some rows of a column, in this order and maybe many times; wide if they are too much for its type."""
    if column.type in _WIDE and int(lengths(column)[rows].sum()) > MOST_BYTES:
        column = column.cast(_WIDE[column.type])
    return column.take(pa.array(rows))


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """All of some columns of one type, wide or not; wide only if they are too much for the plain type."""
    kinds = {array.type for array in arrays}
    plain = {_NARROW.get(kind, kind) for kind in kinds}
    if len(plain) == 1 and is_text(kind := plain.pop()):
        if sum(int(lengths(array).sum()) for array in arrays) > MOST_BYTES:
            kind = _WIDE[kind]
        arrays = [array if array.type == kind else array.cast(kind) for array in arrays]
    return pa.concat_arrays(list(arrays))


def narrow(column: pa.Array) -> pa.Array:
    """A wide column in its plain type, if that can hold it."""
    if column.type in _NARROW and int(lengths(column).sum()) <= MOST_BYTES:
        return column.cast(_NARROW[column.type])
    return column


def cut(sizes: Longs, most: int) -> list[slice]:
    """Rows in a row, cut so that each piece has at most so many bytes, or is a single row."""
    ends = np.cumsum(sizes)
    pieces, begin = list[slice](), 0
    while begin < len(sizes):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        pieces.append(slice(begin, end))
        begin = end
    return pieces
