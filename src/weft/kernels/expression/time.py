"""Fields of dates and timestamps in UTC, in the proleptic Gregorian calendar, over the full range of both types."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from weft.kernels.expression.values import Datum, RowError, fixed_values, to_array, with_nulls_of

Longs = npt.NDArray[np.int64]

MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND
# The first and last day whose midnight is a valid timestamp.
_FIRST_DAY, _LAST_DAY = -106_751_991, 106_751_991

# Days are counted from 0000-03-01, so that a leap day is the last day of its year; 400 years have 146,097 days.
_DAYS_TO_EPOCH, _DAYS_PER_ERA = 719_468, 146_097


def time_field(name: str, value: Datum) -> Datum:
    """Return the year, month, day, hour, minute or second of a date or timestamp, as int."""
    if isinstance(value, pa.Scalar):
        return time_field(name, to_array(value, 1))[0]
    match name:
        case "year" | "month" | "day":
            numbers = civil(_days(value))[("year", "month", "day").index(name)]
        case "hour":
            numbers = _time_of_day(value) // (3600 * MICROS_PER_SECOND)
        case "minute":
            numbers = _time_of_day(value) // (60 * MICROS_PER_SECOND) % 60
        case "second":
            numbers = _time_of_day(value) // MICROS_PER_SECOND % 60
        case _:
            raise AssertionError(name)
    return with_nulls_of(numbers.astype(np.int32), pa.int32(), value)


def date_to_micros(array: pa.Array) -> Longs:
    """Return the midnight of each date in microseconds; raise RowError if it is outside the range of timestamps."""
    days = _days(array)
    out_of_range = (days < _FIRST_DAY) | (days > _LAST_DAY)
    if out_of_range.any():
        if (out_of_range & array.is_valid().to_numpy(zero_copy_only=False)).any():
            raise RowError("arithmetic overflow")
        days = np.where(out_of_range, 0, days)
    return days * MICROS_PER_DAY


def civil(days: Longs) -> tuple[Longs, Longs, Longs]:
    """Return the year, month and day of each number of days since 1970-01-01."""
    shifted = days + _DAYS_TO_EPOCH
    era = shifted // _DAYS_PER_ERA
    day_of_era = shifted - era * _DAYS_PER_ERA
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + np.where(shifted_month < 10, 3, -9)
    return year_of_era + era * 400 + (month <= 2), month, day


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 of a valid calendar date of any year."""
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _DAYS_PER_ERA + day_of_era - _DAYS_TO_EPOCH


def micros_of(array: pa.Array) -> Longs:
    """Return the microseconds since 1970 of a timestamp array; values under NULLs are arbitrary."""
    return fixed_values(array, np.int64).astype(np.int64, copy=False)


def _days(array: pa.Array) -> Longs:
    if pt.is_date32(array.type):
        return fixed_values(array, np.int32).astype(np.int64)
    return micros_of(array) // MICROS_PER_DAY


def _time_of_day(array: pa.Array) -> Longs:
    micros = date_to_micros(array) if pt.is_date32(array.type) else micros_of(array)
    return micros % MICROS_PER_DAY
