"""How many bytes rows take, each by itself: a text of 100 MB among small ones must not be taken for one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

Longs = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
_UNKNOWN = 16


def row_widths(table: pa.RecordBatch, names: Sequence[str], rows: Numbers) -> tuple[int, Longs | None]:
    """About the bytes of some columns in some rows: what each row takes, and what it takes besides (None: nothing)."""
    fixed, varying = 0, None
    for name in names:
        if name in table.schema.names and len(rows):
            same, own = _widths(table.column(name), rows)
            fixed += same
            if own is not None:
                varying = own if varying is None else varying + own
    return fixed, varying


def _widths(column: pa.Array, rows: Numbers) -> tuple[int, Longs | None]:
    kind = column.type
    if pt.is_string(kind) or pt.is_binary(kind) or pt.is_large_string(kind) or pt.is_large_binary(kind):
        large = pt.is_large_string(kind) or pt.is_large_binary(kind)
        offsets = np.frombuffer(column.buffers()[1], np.int64 if large else np.int32)[column.offset :]
        return 8, (offsets[rows + 1] - offsets[rows]).astype(np.int64)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind):
        inner = [column.keys, column.items] if pt.is_map(kind) else [column.values]
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        own = [_lists(values, offsets[rows], offsets[rows + 1]) for values in inner]
        return 8, sum(own[1:], own[0])
    if pt.is_struct(kind):
        parts = [_widths(part, rows) for part in column.flatten()]
        own = [each for _, each in parts if each is not None]
        return sum(same for same, _ in parts), sum(own[1:], own[0]) if own else None
    try:
        return max(1, kind.bit_width // 8), None
    except ValueError:
        return _UNKNOWN, None


def _lists(values: pa.Array, begin: Longs, end: Longs) -> Longs:
    """Bytes of the values of each list."""
    same, own = _widths(values, np.arange(len(values))) if len(values) else (0, None)
    found: Longs = (end - begin) * same
    if own is not None:
        ends = np.concatenate([[0], np.cumsum(own)])
        found = found + ends[end] - ends[begin]
    return found
