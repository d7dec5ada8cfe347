"""What all evaluators share: data are Arrow arrays or scalars, and a failing row raises `RowError`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# A scalar stands for the same value in every row; it is spread out only when someone needs an array.
Datum: TypeAlias = pa.Array | pa.Scalar


class RowError(Exception):
    """Spark (ANSI mode) would fail on some row of the data; `evaluate` adds which expression did."""


def is_null_scalar(datum: Datum) -> bool:
    """Whether the datum is NULL in every row without looking at rows."""
    return isinstance(datum, pa.Scalar) and not datum.is_valid


def has_nulls(datum: Datum) -> bool:
    """Whether the datum is NULL in some row."""
    return not datum.is_valid if isinstance(datum, pa.Scalar) else datum.null_count > 0


def spread(datum: Datum, rows: int) -> pa.Array:
    """The datum as an array of that many rows."""
    return pa.repeat(datum, rows) if isinstance(datum, pa.Scalar) else datum


def flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One plain array: chunks joined, dictionaries decoded."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # an Arrow that keeps one chunk wrapped
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def valid_rows(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which rows are not NULL; None when all are."""
    if array.null_count == 0:
        return None
    return to_bools(array.is_valid())


def to_bools(array: pa.Array) -> npt.NDArray[np.bool_]:
    """A boolean array without NULLs as numpy."""
    result: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return result


def true_rows(datum: Datum, rows: int) -> npt.NDArray[np.bool_]:
    """Which rows are TRUE (neither FALSE nor NULL)."""
    if isinstance(datum, pa.Scalar):
        return np.full(rows, datum.as_py() is True)
    return to_bools(datum.fill_null(False) if datum.null_count else datum)


def fixed_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values of a fixed-width array without a copy; whatever lies under NULLs is arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * size)


def with_nulls_of(values: npt.NDArray[np.generic], type_: pa.DataType, *sources: pa.Array) -> pa.Array:
    """An array of these values, NULL wherever one of the sources is."""
    mask: npt.NDArray[np.bool_] | None = None
    for source in sources:
        valid = valid_rows(source)
        if valid is not None:
            mask = ~valid if mask is None else mask | ~valid
    return pa.array(values, type=type_, mask=mask)


def scatter(values: pa.Array, rows: npt.NDArray[np.bool_], rest: pa.Array) -> pa.Array:
    """`rest` with the marked rows replaced, in order, by `values`."""
    return pc.replace_with_mask(rest, pa.array(rows), values)
