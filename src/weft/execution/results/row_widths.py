"""Approximate bytes of each row, not an average: one text of 100 MB among small ones must count in full."""

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
    """Return the approximate bytes of some columns of `rows`: a number for all rows, and an addition by row or None."""
    fixed, varying = 0, None
    for name in names:
        if name in table.schema.names and len(rows):
            column_fixed, column_varying = _widths(table.column(name), rows)
            fixed += column_fixed
            if column_varying is not None:
                varying = column_varying if varying is None else varying + column_varying
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
        lists = [_lists(values, offsets[rows], offsets[rows + 1]) for values in inner]
        return 8, sum(lists[1:], lists[0])
    if pt.is_struct(kind):
        fields = [_widths(field, rows) for field in column.flatten()]
        varying = [widths for _, widths in fields if widths is not None]
        return sum(fixed for fixed, _ in fields), sum(varying[1:], varying[0]) if varying else None
    try:
        return max(1, kind.bit_width // 8), None
    except ValueError:
        return _UNKNOWN, None


def _lists(values: pa.Array, begin: Longs, end: Longs) -> Longs:
    """Return the bytes of the values in each list, which are values[begin:end]."""
    fixed, varying = _widths(values, np.arange(len(values))) if len(values) else (0, None)
    widths: Longs = (end - begin) * fixed
    if varying is not None:
        ends = np.concatenate([[0], np.cumsum(varying)])
        widths = widths + ends[end] - ends[begin]
    return widths
