"""Parse durations such as `5 seconds`, `250 ms` and `2 hours 30 minutes`."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from weft.errors import InvalidSetting

LONGEST = timedelta(days=36_500)

_SIZES = {
    "us": 1, "µs": 1, "μs": 1, "usec": 1, "usecs": 1, "microsecond": 1, "microseconds": 1,
    "ms": 1000, "msec": 1000, "msecs": 1000, "millisecond": 1000, "milliseconds": 1000,
    "s": 1_000_000, "sec": 1_000_000, "secs": 1_000_000, "second": 1_000_000, "seconds": 1_000_000,
    "m": 60_000_000, "min": 60_000_000, "mins": 60_000_000, "minute": 60_000_000, "minutes": 60_000_000,
    "h": 3_600_000_000, "hr": 3_600_000_000, "hrs": 3_600_000_000, "hour": 3_600_000_000, "hours": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000, "days": 86_400_000_000,
    "w": 604_800_000_000, "week": 604_800_000_000, "weeks": 604_800_000_000,
}  # fmt: skip
UNITS = frozenset(_SIZES)

_PART = r"[+-]?\s*(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})\s*[a-zµμ]+"
_WHOLE = re.compile(rf"\s*{_PART}(?:\s*,?\s*{_PART})*\s*", re.IGNORECASE)
_SPLIT = re.compile(r"([+-]?)\s*([0-9.]+)\s*([a-zµμ]+)", re.IGNORECASE)


def read_micros(text: str) -> int | None:
    """Return the microseconds of a text such as `1 minute 30 seconds`, possibly negative; None if it is not a duration.

    A fraction of a microsecond is not a duration, because event time has microsecond precision.
    """
    if len(text) > 200 or not _WHOLE.fullmatch(text):
        return None
    total = Decimal(0)
    for sign, number, unit in _SPLIT.findall(text):
        size = _SIZES.get(unit.lower())
        if size is None:
            return None
        total += Decimal(sign + number) * size
    return int(total) if total == int(total) else None


def parse_duration(text: str | timedelta) -> timedelta:
    """Return the duration of a setting, given as text or a `timedelta`; raise `InvalidSetting` if it is not valid."""
    if isinstance(text, timedelta):
        return _checked(text, str(text))
    if not isinstance(text, str):
        raise InvalidSetting(
            f"a duration must be text or a timedelta, not {type(text).__name__}",
            hint='Write it like "5 seconds" or "2 hours 30 minutes".',
        )
    micros = read_micros(text)
    if micros is None:
        raise InvalidSetting(
            f'"{text[:80]}" is not a duration',
            hint='Write numbers and units (microseconds to weeks), like "250 ms" or "2 hours 30 minutes".',
        )
    if abs(micros) > LONGEST / timedelta(microseconds=1):
        raise InvalidSetting(f'the duration "{text[:80]}" is too long', hint=f"The longest is {LONGEST.days} days.")
    return _checked(timedelta(microseconds=micros), text)


def _checked(duration: timedelta, text: str) -> timedelta:
    if duration < timedelta(0):
        raise InvalidSetting(f'the duration "{text[:80]}" is negative')
    if duration > LONGEST:
        raise InvalidSetting(f'the duration "{text[:80]}" is too long', hint=f"The longest is {LONGEST.days} days.")
    return duration
