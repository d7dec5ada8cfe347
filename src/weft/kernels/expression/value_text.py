"""Conversion of values to and from Spark's text, one Python value at a time (callers pass each distinct value once)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from weft.kernels.expression.time import MICROS_PER_DAY, MICROS_PER_SECOND, civil, days_from_civil
from weft.kernels.expression.values import RowError
from weft.plan.types import Kind

_BLANK = "".join(chr(code) for code in range(0x21)) + "\x7f"
_SPACE = "".join(chr(code) for code in range(0x21))
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?")
_SPECIAL = re.compile(r"([+-]?)(inf|infinity)|[+-]?nan")
# Java's BigDecimal accepts the digits of every script.
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))
_MOST_DIGITS = 19
_LIMITS = {Kind.TINYINT: 2**7, Kind.SMALLINT: 2**15, Kind.INT: 2**31, Kind.BIGINT: 2**63}


def decimal_text(value: Decimal) -> str:
    """Return all digits of a number, without an exponent."""
    return format(value, "f")


def signed_date_text(days: int) -> str:
    """Return a date as yyyy-MM-dd; a year below 0 or above 9999 has a sign."""
    year, month, day = (int(field[0]) for field in civil(np.array([days], np.int64)))
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def timestamp_text(micros: int) -> str:
    """Return a timestamp as yyyy-MM-dd HH:mm:ss in UTC, plus the fraction without trailing zeros if it is not zero."""
    days, time_of_day = divmod(micros, MICROS_PER_DAY)
    seconds, fraction = divmod(time_of_day, MICROS_PER_SECOND)
    text = f"{signed_date_text(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def _integer_parser(kind: Kind) -> Callable[[str], int]:
    limit = _LIMITS[kind]

    def parse(text: str) -> int:
        trimmed = text.strip(_BLANK)
        # Python's int() rejects thousands of digits, and is slow for hundreds.
        digits = trimmed.lstrip("+-").lstrip("0")
        if not _INTEGER.fullmatch(trimmed) or len(digits) > _MOST_DIGITS:
            raise _malformed(text, kind)
        value = int(digits or "0") * (-1 if trimmed.startswith("-") else 1)
        if not -limit <= value < limit:
            raise _malformed(text, kind)
        return value

    return parse


def _float(text: str, kind: Kind) -> float:
    trimmed = text.strip(_SPACE)
    if match := _FLOAT.fullmatch(trimmed):
        return float(match[1])
    if match := _HEX_FLOAT.fullmatch(trimmed):
        return float.fromhex(match[1])
    if match := _SPECIAL.fullmatch(trimmed.lower()):
        return float(match[0])
    raise _malformed(text, kind)


def _decimal(text: str) -> Decimal:
    trimmed = text.strip(_SPACE)
    if not _DECIMAL.fullmatch(trimmed):
        raise _malformed(text, Kind.DECIMAL)
    try:
        return Decimal(trimmed)
    except InvalidOperation:
        raise _malformed(text, Kind.DECIMAL) from None


def _boolean(text: str) -> bool:
    trimmed = text.strip(_BLANK).lower()
    if trimmed in _TRUE:
        return True
    if trimmed in _FALSE:
        return False
    raise _malformed(text, Kind.BOOLEAN)


def _date(text: str) -> int:
    match = _DATE.fullmatch(text.strip(_BLANK))
    if not match:
        raise _malformed(text, Kind.DATE)
    year, month, day = int(match[2]) * (-1 if match[1] == "-" else 1), int(match[3] or 1), int(match[4] or 1)
    try:
        date(2000 + year % 400, month, day)  # the calendar repeats every 400 years
    except ValueError:
        raise _malformed(text, Kind.DATE) from None
    return days_from_civil(year, month, day)


def _malformed(text: str, kind: Kind) -> RowError:
    return RowError(f"{text[:200]!r} is not a {kind.value}")


# Parsers of strings by target type; a date becomes its days since 1970-01-01.
PARSERS: dict[Kind, Callable[[str], Any]] = {
    **{kind: _integer_parser(kind) for kind in _LIMITS},
    Kind.FLOAT: lambda text: _float(text, Kind.FLOAT),
    Kind.DOUBLE: lambda text: _float(text, Kind.DOUBLE),
    Kind.DECIMAL: _decimal,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
}
