"""Arithmetic in ANSI mode: overflow and division by zero raise, division truncates toward zero, % has Java's sign."""

from __future__ import annotations

import decimal
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from weft.kernels.expression.values import Datum, RowError, fixed_values, to_array, with_nulls_of

_CHECKED = {"add": pc.add_checked, "sub": pc.subtract_checked, "mul": pc.multiply_checked}
_PLAIN = {"add": pc.add, "sub": pc.subtract, "mul": pc.multiply}
_DIGITS_128, _DIGITS_256 = 38, 76
_EXACT = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP)


def arithmetic(name: str, left: Datum, right: Datum, type_: pa.DataType) -> Datum:
    """Add, subtract or multiply (`name`: add, sub, mul) two data of one type; return the result as `type_`."""
    if pt.is_decimal(left.type):
        return _decimal_arithmetic(name, left, right, type_)
    try:
        return _CHECKED[name](left, right)
    except pa.ArrowInvalid as error:
        raise RowError("arithmetic overflow") from error


def divide(left: Datum, right: Datum) -> Datum:
    """Divide floating-point numbers; raise RowError if a divisor is zero."""
    _refuse_zero(left, right)
    return pc.divide(left, right)


def divide_integral(left: Datum, right: Datum) -> Datum:
    """Return the quotient truncated to a bigint."""
    if pt.is_decimal(left.type):
        return _python_decimal(_whole_quotient, left, right, pa.int64())
    try:
        return pc.divide_checked(left.cast(pa.int64()), right.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise RowError("division by zero" if "zero" in str(error) else "arithmetic overflow") from error


def remainder(left: Datum, right: Datum, type_: pa.DataType) -> Datum:
    """Return the remainder of the division toward zero; it has the sign of the dividend."""
    _refuse_zero(left, right)
    if pt.is_decimal(left.type):
        return _python_decimal(_EXACT.remainder, left, right, type_)
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return remainder(to_array(left, 1), to_array(right, 1), type_)[0]
    rows = len(right) if isinstance(left, pa.Scalar) else len(left)
    if isinstance(right, pa.Scalar) and right.as_py():  # the common case: a constant divisor
        with np.errstate(invalid="ignore"):
            return with_nulls_of(np.fmod(_numbers(left), _numbers(to_array(right, 1))), type_, left)
    lefts, rights = to_array(left, rows), to_array(right, rows)
    dividend, divisor = _numbers(lefts), _numbers(rights)
    with np.errstate(invalid="ignore"):
        result = np.fmod(dividend, np.where(divisor == 0, divisor.dtype.type(1), divisor))
    return with_nulls_of(result, type_, lefts, rights)


def negate(value: Datum) -> Datum:
    """Return the negated number; raise RowError on overflow."""
    return _unary(pc.negate if _cannot_overflow(value) else pc.negate_checked, value)


def absolute(value: Datum) -> Datum:
    """Return the absolute value; raise RowError on overflow."""
    return _unary(pc.abs if _cannot_overflow(value) else pc.abs_checked, value)


def round_decimal(value: Datum, type_: pa.DataType) -> Datum:
    """Round a decimal half up to the scale of `type_`; raise RowError if the result exceeds its precision."""
    if value.type == type_:
        return value
    try:
        if value.type.scale > type_.scale:
            # Rounding may carry into one more digit than the type has.
            wide = pa.decimal256(min(_DIGITS_256, value.type.precision + 1), value.type.scale)
            value = pc.round(value.cast(wide), ndigits=type_.scale, round_mode="half_towards_infinity")
        return value.cast(type_)
    except pa.ArrowInvalid as error:
        raise RowError(f"value does not fit decimal({type_.precision},{type_.scale})") from error


def _unary(function: Callable[[Datum], Datum], value: Datum) -> Datum:
    try:
        return function(value)
    except pa.ArrowInvalid as error:
        raise RowError("arithmetic overflow") from error


def _cannot_overflow(value: Datum) -> bool:
    return not pt.is_integer(value.type)


def _refuse_zero(left: Datum, right: Datum) -> None:
    is_zero = pc.equal(right, pa.scalar(0, right.type))
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        has_zero_divisor = bool(is_zero.as_py()) and left.is_valid
    else:
        has_zero_divisor = bool(pc.any(pc.and_(is_zero, pc.is_valid(left))).as_py())
    if has_zero_divisor:
        raise RowError("division by zero")


def _numbers(array: pa.Array) -> npt.NDArray[np.generic]:
    return fixed_values(array, array.type.to_pandas_dtype())


def _decimal_arithmetic(name: str, left: Datum, right: Datum, type_: pa.DataType) -> Datum:
    left_digits, right_digits = left.type.precision, right.type.precision
    digits = left_digits + right_digits + 1 if name == "mul" else _sum_digits(left.type, right.type)
    if digits > _DIGITS_256:
        return _python_decimal({"mul": _EXACT.multiply}[name], left, right, type_)
    if digits > _DIGITS_128:
        left = left.cast(pa.decimal256(left_digits, left.type.scale))
        right = right.cast(pa.decimal256(right_digits, right.type.scale))
    return round_decimal(_PLAIN[name](left, right), type_)


def _sum_digits(left: pa.DataType, right: pa.DataType) -> int:
    integer_digits = max(left.precision - left.scale, right.precision - right.scale)
    return int(integer_digits + max(left.scale, right.scale) + 1)


def _whole_quotient(left: decimal.Decimal, right: decimal.Decimal) -> int:
    if right == 0:
        raise RowError("division by zero")
    quotient = int(_EXACT.divide_int(left, right))
    if not -(2**63) <= quotient < 2**63:
        raise RowError("arithmetic overflow")
    return quotient


def _python_decimal(
    function: Callable[[decimal.Decimal, decimal.Decimal], object], left: Datum, right: Datum, type_: pa.DataType
) -> Datum:
    """Apply a function row by row, for operations that Arrow's decimals do not support."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _python_decimal(function, to_array(left, 1), to_array(right, 1), type_)[0]
    rows = len(right) if isinstance(left, pa.Scalar) else len(left)
    pairs = zip(to_array(left, rows).to_pylist(), to_array(right, rows).to_pylist(), strict=True)
    results = [None if a is None or b is None else function(a, b) for a, b in pairs]
    if pt.is_decimal(type_):
        results = [_fit(value, type_) for value in results]
    return pa.array(results, type=type_)


def _fit(value: object, type_: pa.DataType) -> decimal.Decimal | None:
    if value is None:
        return None
    assert isinstance(value, decimal.Decimal)
    rounded = value.quantize(decimal.Decimal(1).scaleb(-type_.scale), context=_EXACT)
    if rounded.adjusted() + 1 + type_.scale > type_.precision and rounded:
        raise RowError(f"value does not fit decimal({type_.precision},{type_.scale})")
    return rounded
