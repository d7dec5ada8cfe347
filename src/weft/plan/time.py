"""Event times as 64-bit microseconds since 1970: limits, conversion and text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1
"""The earliest and the latest event time, in the years -290308 and 294247."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY = 86_400_000_000
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The period after which the Gregorian calendar repeats."""


def clamp_time(micros: int) -> int:
    """Return the time, clamped to the range of event times."""
    return max(TIME_MIN, min(TIME_MAX, micros))


def to_datetime(micros: int) -> datetime:
    """Return the time as a datetime, clamped to the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return _LAST if micros > 0 else _FIRST


def time_text(micros: int, *, zone: str = "Z") -> str:
    """Return the time in ISO 8601; years outside 1 to 9999 have a sign and six digits."""
    days, micros_of_day = divmod(micros, _DAY)
    clock = (_EPOCH + timedelta(microseconds=micros_of_day)).time().isoformat()
    return f"{date_text(days)}T{clock}{zone}"


def date_text(days: int) -> str:
    """Return a date, given in days since 1970, in the same format."""
    cycles, day_of_cycle = divmod(days, _CYCLE_DAYS)
    day = date.fromordinal(_EPOCH_DAY + day_of_cycle)
    year = day.year + _CYCLE_YEARS * cycles
    year_text = f"{year:04d}" if date.min.year <= year <= date.max.year else f"{year:+07d}"
    return f"{year_text}-{day.month:02d}-{day.day:02d}"
