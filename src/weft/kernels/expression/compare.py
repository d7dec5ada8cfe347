"""Comparisons in Spark's order: NaN equals NaN and exceeds every number, -0.0 equals 0.0, strings by code point."""

from __future__ import annotations

import functools
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from weft.kernels.expression.values import Datum, fixed_values, with_nulls_of


def compare(name: str, left: Datum, right: Datum) -> Datum:
    """Compare two data of one type (`name`: eq, ne, lt, le, gt, ge); the result is NULL where either is NULL."""
    if not pt.is_floating(left.type):
        return _PLAIN[name](left, right)
    match name:
        case "eq":
            return _equal(left, right)
        case "ne":
            return pc.invert(_equal(left, right))
        case "lt":
            return _less(left, right)
        case "ge":
            return pc.invert(_less(left, right))
        case "gt":
            return _less(right, left)
        case "le":
            return pc.invert(_less(right, left))
        case _:
            raise AssertionError(name)


def equal_null_safe(left: Datum, right: Datum) -> Datum:
    """Compare for equality, with NULL equal to NULL; the result is never NULL."""
    equal = pc.fill_null(compare("eq", left, right), False)
    return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def is_in(value: Datum, options: list[pa.Scalar]) -> Datum:
    """Return `value IN (options)`: NULL where `value` is NULL, or where nothing matches and an option is NULL."""
    if isinstance(value, pa.Scalar):
        return functools.reduce(pc.or_kleene, (compare("eq", value, option) for option in options))
    non_null = [option for option in options if option.is_valid]
    if pt.is_floating(value.type):
        result = _float_in(value, [option.as_py() for option in non_null])
    else:
        contained = pc.is_in(value, value_set=pa.array([option.as_py() for option in non_null], type=value.type))
        result = pc.if_else(value.is_valid(), contained, None) if value.null_count else contained
    if len(non_null) < len(options):
        result = pc.if_else(result, True, None)
    return result


def _float_in(value: pa.Array, options: list[float]) -> pa.Array:
    dtype = np.float32 if value.type == pa.float32() else np.float64
    numbers = fixed_values(value, dtype)
    contained = np.isin(numbers, np.array([option for option in options if not math.isnan(option)], dtype))
    if any(math.isnan(option) for option in options):
        contained |= np.isnan(numbers)
    return with_nulls_of(contained, pa.bool_(), value)


_PLAIN = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}


def _equal(left: Datum, right: Datum) -> Datum:
    equal = pc.equal(left, right)
    if _never_nan(left) or _never_nan(right):
        return equal
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Datum, right: Datum) -> Datum:
    less = pc.less(left, right)
    if _never_nan(right):
        return less
    return pc.or_(less, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))


def _never_nan(datum: Datum) -> bool:
    return isinstance(datum, pa.Scalar) and datum.is_valid and not math.isnan(datum.as_py())
