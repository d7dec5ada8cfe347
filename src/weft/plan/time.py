"""Event times: microseconds since 1970 in 64 bits, held at the ends of that range, and as text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1
"""The earliest and the latest event time: in the years -290308 and 294247."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY = 86_400_000_000
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The calendar repeats itself."""


def held(micros: int) -> int:
    """The time, or the end of the range that it lies beyond."""
    return max(TIME_MIN, min(TIME_MAX, micros))


def to_datetime(micros: int) -> datetime:
    """The time as Python has it: one before the year 1 or after the year 9999 is held at that end."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return _LAST if micros > 0 else _FIRST


def time_text(micros: int, *, zone: str = "Z") -> str:
    """The time as ISO 8601 writes it; a year that does not have four digits has a sign and six of them."""
    days, rest = divmod(micros, _DAY)
    clock = (_EPOCH + timedelta(microseconds=rest)).time().isoformat()
    return f"{date_text(days)}T{clock}{zone}"


def date_text(days: int) -> str:
    """The same for a date, given in days since 1970."""
    cycles, within = divmod(days, _CYCLE_DAYS)
    day = date.fromordinal(_EPOCH_DAY + within)
    year = day.year + _CYCLE_YEARS * cycles
    written = f"{year:04d}" if date.min.year <= year <= date.max.year else f"{year:+07d}"
    return f"{written}-{day.month:02d}-{day.day:02d}"
