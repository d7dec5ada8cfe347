"""Casts in ANSI mode between the types that weft computes with (`castable`); Spark evaluates all other casts."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from weft.kernels.arrow_types import arrow_type
from weft.kernels.expression.arithmetic import round_decimal
from weft.kernels.expression.time import MICROS_PER_DAY, MICROS_PER_SECOND, date_to_micros, micros_of
from weft.kernels.expression.value_text import PARSERS, decimal_text, signed_date_text, timestamp_text
from weft.kernels.expression.values import Datum, RowError, fixed_values, to_array, to_bools, with_nulls_of
from weft.plan.expression import Expression
from weft.plan.types import FLOATS, INTEGERS, DataType, Kind

_TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
_LIMITS = {Kind.TINYINT: 2**7, Kind.SMALLINT: 2**15, Kind.INT: 2**31, Kind.BIGINT: 2**63}
_DIGITS = {Kind.BOOLEAN: 1, Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19}
_LONG = DataType(Kind.BIGINT)
_BIG = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)


def cast(value: Datum, source: Expression, target: DataType) -> Datum:
    """Cast a value to `target`; raise RowError if Spark fails or if only Spark supports the cast."""
    arrow_target = arrow_type(target)
    if value.type == arrow_target or source.type == target:
        return value
    if source.type is None or not castable(source.type, target):
        raise RowError(f"a cast to {target.ddl()} that only Spark evaluates")
    if isinstance(value, pa.Scalar):
        return cast(to_array(value, 1), source, target)[0]
    try:
        return _cast_array(value, source.type, target)
    except pa.ArrowInvalid as error:
        raise RowError(f"value out of range for {target.ddl()}") from error


def castable(source: DataType, target: DataType) -> bool:
    """Return whether `cast` supports this pair of types."""
    return source == target or _converter(source, target) is not None


def cast_may_raise(source: DataType | None, target: DataType) -> bool:
    """Return whether some value of the source type has no counterpart in the target type."""
    if source is None or not castable(source, target):
        return True
    if source == target or (target.kind is Kind.BOOLEAN and source.kind is not Kind.STRING):
        return False
    match source.kind:
        case Kind.NULL | Kind.BOOLEAN | Kind.TINYINT | Kind.SMALLINT | Kind.INT | Kind.BIGINT:
            return _integer_may_not_fit(source, target)
        case Kind.FLOAT | Kind.DOUBLE:
            return target.kind not in FLOATS
        case Kind.DECIMAL if target.kind is Kind.DECIMAL:
            return target.scale < source.scale or target.precision - target.scale < source.precision - source.scale
        case Kind.DECIMAL:
            return target.kind not in (*FLOATS, Kind.STRING)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return target.kind not in (*_TIMES, *FLOATS, Kind.DATE, Kind.BIGINT, Kind.STRING)
        case Kind.STRING:
            return target.kind is not Kind.BINARY
        case _:
            return target.kind is not Kind.STRING


def _integer_may_not_fit(source: DataType, target: DataType) -> bool:
    if target.kind is Kind.DECIMAL:
        return target.precision - target.scale < _DIGITS.get(source.kind, 0)
    if target.kind in INTEGERS and source.kind in INTEGERS:
        return _LIMITS[target.kind] < _LIMITS[source.kind]
    return False


Converter = Callable[[pa.Array, DataType], pa.Array]


def _cast_array(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    converter = _converter(source, target)
    assert converter is not None
    return converter(array, target)


def _converter(source: DataType, target: DataType) -> Converter | None:
    """Return the function that converts `source` to `target`, or None if `cast` does not support the pair."""
    match source.kind, target.kind:
        case Kind.OTHER, _:
            return None
        case Kind.NULL, _:
            return _arrow_cast
        case Kind.STRING, kind if kind in PARSERS:
            return _parse
        case ((Kind.DECIMAL | Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ), Kind.STRING):
            return _write
        case (Kind.BOOLEAN, Kind.STRING) | (Kind.STRING, Kind.BINARY):
            return _arrow_cast
        case kind, Kind.STRING if kind in INTEGERS:
            return _arrow_cast
        case _:
            return _number_converter(source.kind, target.kind) or _time_converter(source.kind, target.kind)


def _number_converter(source: Kind, target: Kind) -> Converter | None:
    integral = (Kind.BOOLEAN, *INTEGERS)
    table: list[tuple[tuple[Kind, ...], tuple[Kind, ...], Converter]] = [
        (integral, INTEGERS, _arrow_cast),
        (INTEGERS, (Kind.BOOLEAN,), _arrow_cast),
        (integral, FLOATS, _float_of_number),
        (integral, (Kind.DECIMAL,), _decimal_of_integer),
        (FLOATS, INTEGERS, _integer_of_float),
        (FLOATS, FLOATS, _float_of_number),
        (FLOATS, (Kind.BOOLEAN,), _boolean_of_float),
        (FLOATS, (Kind.DECIMAL,), _decimal_of_float),
        ((Kind.DECIMAL,), INTEGERS, _integer_of_decimal),
        ((Kind.DECIMAL,), FLOATS, _float_of_decimal),
        ((Kind.DECIMAL,), (Kind.BOOLEAN,), _boolean_of_decimal),
        ((Kind.DECIMAL,), (Kind.DECIMAL,), lambda array, type_: round_decimal(array, arrow_type(type_))),
    ]
    return next((converter for sources, targets, converter in table if source in sources and target in targets), None)


def _time_converter(source: Kind, target: Kind) -> Converter | None:
    if source is Kind.DATE and target in _TIMES:
        return lambda array, type_: with_nulls_of(date_to_micros(array), arrow_type(type_), array)
    if source in _TIMES and target is Kind.DATE:
        return _date_of_timestamp
    if source in _TIMES and target in _TIMES:
        return lambda array, type_: with_nulls_of(micros_of(array), arrow_type(type_), array)
    if source is Kind.TIMESTAMP and target in (*INTEGERS, *FLOATS):
        return _number_of_timestamp
    if source in INTEGERS and target is Kind.TIMESTAMP:
        return _timestamp_of_integer
    return None


def _arrow_cast(array: pa.Array, target: DataType) -> pa.Array:
    return array.cast(arrow_type(target))


def _float_of_number(array: pa.Array, target: DataType) -> pa.Array:
    return array.cast(arrow_type(target), safe=False)


def _decimal_of_integer(array: pa.Array, target: DataType) -> pa.Array:
    return round_decimal(array.cast(pa.int64()).cast(pa.decimal128(19, 0)), arrow_type(target))


def _floats(array: pa.Array) -> npt.NDArray[np.float64]:
    return fixed_values(array, array.type.to_pandas_dtype()).astype(np.float64)


def _integer_of_float(array: pa.Array, target: DataType) -> pa.Array:
    numbers = _floats(array)
    limit = _LIMITS[target.kind]
    # As in Spark, the upper bound is compared as a double, so 2^63 passes and becomes the largest bigint.
    fits = (np.floor(numbers) <= float(limit - 1)) & (np.ceil(numbers) >= float(-limit))
    if not (fits | ~to_bools(array.is_valid())).all():
        raise RowError(f"value out of range for {target.ddl()}")
    truncated = np.trunc(np.where(fits, numbers, 0.0))
    too_large = truncated >= float(2**63)
    result = np.where(too_large, 0.0, truncated).astype(np.int64)
    result[too_large] = 2**63 - 1
    return with_nulls_of(result, pa.int64(), array).cast(arrow_type(target))


def _boolean_of_float(array: pa.Array, _: DataType) -> pa.Array:
    return with_nulls_of(_floats(array) != 0, pa.bool_(), array)


def _decimal_of_float(array: pa.Array, target: DataType) -> pa.Array:
    return _by_distinct(array.cast(pa.float64()), lambda value: _float_to_decimal(value, target), arrow_type(target))


def _float_to_decimal(value: object, target: DataType) -> decimal.Decimal | None:
    assert isinstance(value, float)
    if not np.isfinite(value):
        return None
    return fit_decimal(decimal.Decimal(repr(value)), target)


def fit_decimal(value: decimal.Decimal, target: DataType) -> decimal.Decimal:
    """Round a number half up to the type's scale; raise RowError if the result has too many digits."""
    # Check the leading digit first, so that a number of hundreds of digits is never expanded.
    too_large = value and value.adjusted() + 1 + target.scale > target.precision
    rounded = value if too_large else value.quantize(decimal.Decimal(1).scaleb(-target.scale), context=_BIG)
    if rounded and rounded.adjusted() + 1 + target.scale > target.precision:
        raise RowError(f"value out of range for {target.ddl()}")
    return rounded


def _integer_of_decimal(array: pa.Array, target: DataType) -> pa.Array:
    return pc.trunc(array).cast(pa.int64()).cast(arrow_type(target))


def _float_of_decimal(array: pa.Array, target: DataType) -> pa.Array:
    if array.type.precision <= 15:  # both operands are exact doubles, so the division rounds once
        unscaled = fixed_values(array, np.dtype([("low", "<i8"), ("high", "<i8")]))["low"]
        doubles = with_nulls_of(unscaled / 10.0**array.type.scale, pa.float64(), array)
    else:
        doubles = _by_distinct(array, float, pa.float64())
    return doubles.cast(arrow_type(target), safe=False)


def _boolean_of_decimal(array: pa.Array, _: DataType) -> pa.Array:
    return pc.not_equal(array, pa.scalar(0, array.type))


def _date_of_timestamp(array: pa.Array, _: DataType) -> pa.Array:
    days = (micros_of(array) // MICROS_PER_DAY).astype(np.int32)
    return with_nulls_of(days, pa.date32(), array)


def _number_of_timestamp(array: pa.Array, target: DataType) -> pa.Array:
    if target.kind in FLOATS:
        seconds = micros_of(array) / float(MICROS_PER_SECOND)
        return with_nulls_of(seconds, pa.float64(), array).cast(arrow_type(target), safe=False)
    return with_nulls_of(micros_of(array) // MICROS_PER_SECOND, pa.int64(), array).cast(arrow_type(target))


def _timestamp_of_integer(array: pa.Array, target: DataType) -> pa.Array:
    # Spark saturates here instead of failing.
    bound = (2**63 - 1) // MICROS_PER_SECOND
    seconds = fixed_values(array.cast(pa.int64()), np.int64).astype(np.int64)
    micros = np.clip(seconds, -bound, bound) * MICROS_PER_SECOND
    micros[seconds > bound] = 2**63 - 1
    micros[seconds < -bound] = -(2**63)
    return with_nulls_of(micros, arrow_type(target), array)


def _parse(array: pa.Array, target: DataType) -> pa.Array:
    parser = PARSERS[target.kind]
    if target.kind is Kind.DECIMAL:
        return _by_distinct(array, lambda text: fit_decimal(parser(text), target), arrow_type(target))
    return _by_distinct(array, parser, arrow_type(target))


def _write(array: pa.Array, target: DataType) -> pa.Array:
    if pt.is_decimal(array.type):
        return _by_distinct(array, decimal_text, pa.string())
    if pt.is_date32(array.type):
        return _by_distinct(array.cast(pa.int32()), signed_date_text, pa.string())
    return _by_distinct(array.cast(pa.int64()), timestamp_text, arrow_type(target))


def _by_distinct(array: pa.Array, function: Callable[[Any], object], type_: pa.DataType) -> pa.Array:
    """Apply a Python function once to each distinct value."""
    encoded = array.dictionary_encode()
    return pa.array([function(value) for value in encoded.dictionary.to_pylist()], type=type_).take(encoded.indices)
