"""Conversion of Arrow values to Python values, including times that Python's `datetime` cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from weft.plan.time import date_text, time_text

_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column as Python values; times outside the years 1 to 9999 become text (`weft.plan.time.time_text`)."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [value for chunk in chunks for value in _values(chunk)]


def _values(array: pa.Array) -> list[Any]:
    type_ = array.type
    if pt.is_timestamp(type_) and type_.unit in _MICROS:
        return _each(array, pa.int64(), _moment(_MICROS[type_.unit], "" if type_.tz is None else "Z"))
    if pt.is_date32(type_):
        return _each(array, pa.int32(), date_text)
    if pt.is_struct(type_):
        return _structs(array)
    if pt.is_map(type_):
        entries = list(zip(python_values(array.keys), python_values(array.items), strict=True))
        return _lists(array, entries)
    if pt.is_list(type_) or pt.is_large_list(type_):
        return _lists(array, python_values(array.values))
    return list(array.to_pylist())


def _moment(micros: int, zone: str) -> Callable[[int], str]:
    return lambda value: time_text(value * micros, zone=zone)


def _each(array: pa.Array, plain: pa.DataType, text: Callable[[int], str]) -> list[Any]:
    """Return each value as a Python object, or as text if Python cannot hold it."""
    numbers = array.cast(plain).to_pylist()
    return [None if number is None else _one(array[row], number, text) for row, number in enumerate(numbers)]


def _one(value: pa.Scalar, number: int, text: Callable[[int], str]) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return text(number)


def _structs(array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [python_values(child) for child in array.flatten()]
    valid = array.is_valid().to_pylist()
    return [
        {name: column[row] for name, column in zip(names, columns, strict=True)} if is_valid else None
        for row, is_valid in enumerate(valid)
    ]


def _lists(array: pa.Array, values: list[Any]) -> list[Any]:
    """Return the lists of an array; `values` holds the values of its entire child array, which the offsets refer to."""
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [values[offsets[row] : offsets[row + 1]] if is_valid else None for row, is_valid in enumerate(valid)]
