"""Helpers of all evaluators. A datum is an Arrow array or scalar, and a failing row raises `RowError`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# A scalar stands for the same value in every row; it is expanded only where an array is needed.
Datum: TypeAlias = pa.Array | pa.Scalar


class RowError(Exception):
    """The error of a row on which Spark (ANSI mode) would fail; `evaluate` adds the failing expression."""


def is_null_scalar(datum: Datum) -> bool:
    """Return whether the datum is a NULL scalar, and thus NULL in every row."""
    return isinstance(datum, pa.Scalar) and not datum.is_valid


def has_nulls(datum: Datum) -> bool:
    """Return whether the datum is NULL in some row."""
    return not datum.is_valid if isinstance(datum, pa.Scalar) else datum.null_count > 0


def to_array(datum: Datum, rows: int) -> pa.Array:
    """Return the datum as an array of `rows` rows."""
    return pa.repeat(datum, rows) if isinstance(datum, pa.Scalar) else datum


def flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one plain array, with chunks concatenated and dictionaries decoded."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # some Arrow releases return one chunk wrapped
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def valid_rows(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return, for each row, whether it is not NULL; return None if no row is NULL."""
    if array.null_count == 0:
        return None
    return to_bools(array.is_valid())


def to_bools(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a boolean array without NULLs as a numpy array."""
    result: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return result


def true_rows(datum: Datum, rows: int) -> npt.NDArray[np.bool_]:
    """Return, for each row, whether it is TRUE (neither FALSE nor NULL)."""
    if isinstance(datum, pa.Scalar):
        return np.full(rows, datum.as_py() is True)
    return to_bools(datum.fill_null(False) if datum.null_count else datum)


def fixed_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the values of a fixed-width array without a copy; values under NULLs are arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * size)


def with_nulls_of(values: npt.NDArray[np.generic], type_: pa.DataType, *sources: pa.Array) -> pa.Array:
    """Return an array of `values` that is NULL where any of the sources is NULL."""
    mask: npt.NDArray[np.bool_] | None = None
    for source in sources:
        valid = valid_rows(source)
        if valid is not None:
            mask = ~valid if mask is None else mask | ~valid
    return pa.array(values, type=type_, mask=mask)


def scatter(values: pa.Array, rows: npt.NDArray[np.bool_], rest: pa.Array) -> pa.Array:
    """Return `rest` with the marked rows replaced, in order, by `values`."""
    return pc.replace_with_mask(rest, pa.array(rows), values)
