"""Values of literals, and casts of literals at bind time with the results of Spark's ANSI mode."""

from __future__ import annotations

import re
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal
from math import isinf

from weft.errors import QuerySyntaxError, TypeMismatch
from weft.plan.expression import Literal
from weft.plan.types import BIGINT, DATE, DOUBLE, FLOATS, INT, INTEGERS, TIMESTAMP, DataType, Kind


class NeedsSpark(Exception):
    """Raised for an expression that weft cannot evaluate and leaves to Spark."""


# Exact for every value in a query: decimals have at most 38 digits and a scale of at most 38.
_WIDE = Context(prec=200)

BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}

_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONG = re.compile(r"[+-]?[0-9]{1,40}")
_DOUBLE = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[T ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?"
    r"\s*(Z|UTC|GMT|[+-][0-9]{1,2}(?::[0-9]{1,2})?)?)?)?)?"
)
_ZONED = re.compile(r"[0-9]{4}-.*[A-Za-z]+/[A-Za-z_]+")
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))


def number(text: str) -> Literal:
    """Return the int, bigint, decimal or double literal of a number in the query."""
    if not _NUMBER.fullmatch(text):
        raise QuerySyntaxError(f'"{text[:50]}" is not a number')
    if "e" in text.lower():
        value = float(text)
        if isinf(value):
            raise TypeMismatch(f"the number {text[:50]} is beyond the range of double")
        return Literal(value, DOUBLE)
    if "." not in text:
        return integer(int(text)) if len(text) <= 60 else _too_long(text)
    exact = Decimal(text)
    return Literal(exact, decimal_type(exact)) if len(text) <= 60 else _too_long(text)


def integer(value: int) -> Literal:
    """Return an integer literal with the type that Spark gives it: int, bigint or decimal."""
    if fits_type(value, INT):
        return Literal(value, INT)
    if fits_type(value, BIGINT):
        return Literal(value, BIGINT)
    return Literal(Decimal(value), decimal_type(Decimal(value)))


def decimal_type(value: Decimal) -> DataType:
    """Return Spark's type of a decimal literal."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits), scale)
    return DataType(Kind.DECIMAL, precision, scale) if precision <= 38 else _too_long(str(value)).type


def _too_long(text: str) -> Literal:
    raise TypeMismatch(f"the number {text[:50]} has more than 38 digits")


def fits_type(value: int | Decimal, type_: DataType) -> bool:
    """Return whether an integer or decimal type holds the value exactly."""
    if type_.kind is Kind.DECIMAL:
        scaled = Decimal(value).scaleb(type_.scale, _WIDE)
        return scaled == scaled.to_integral_value() and abs(scaled) < 10**type_.precision
    low, high = limits(type_)
    return value == int(value) and low <= value <= high


def limits(type_: DataType) -> tuple[int, int]:
    """Return the smallest and largest value of an integer or decimal type, in units of its last digit."""
    if type_.kind is Kind.DECIMAL:
        return 1 - 10**type_.precision, 10**type_.precision - 1
    bits = BITS[type_.kind]
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def cast_literal(literal: Literal, target: DataType) -> Literal:
    """Return the literal as `target`, with the value of Spark's cast; raise `NeedsSpark` or `TypeMismatch`."""
    value = literal.value
    if value is None or literal.type == target:
        return Literal(value, target)
    if isinstance(value, str) and literal.type.kind is Kind.STRING:
        return _cast_text(value, target)
    kind = literal.type.kind
    if isinstance(value, (int, Decimal)) and (kind in INTEGERS or kind is Kind.DECIMAL):
        return _cast_exact(value, target)
    if isinstance(value, float) and target.kind in FLOATS:
        return Literal(_as_float(value, target), target)
    if kind is Kind.DATE and target == TIMESTAMP and isinstance(value, date):
        return Literal(datetime(value.year, value.month, value.day, tzinfo=UTC), TIMESTAMP)
    raise NeedsSpark


def _cast_exact(value: int | Decimal, target: DataType) -> Literal:
    if target.kind in FLOATS:
        return Literal(_as_float(float(value), target), target)
    if (target.kind in INTEGERS or target.kind is Kind.DECIMAL) and fits_type(value, target):
        return Literal(_of_scale(value, target), target)
    raise NeedsSpark


def _of_scale(value: int | Decimal, target: DataType) -> int | Decimal:
    return from_units(units(value, target), target)


def units(value: int | Decimal, type_: DataType) -> int:
    """Return a value that fits the type, in units of the type's last digit."""
    return int(Decimal(value).scaleb(type_.scale, _WIDE)) if type_.kind is Kind.DECIMAL else int(value)


def from_units(count: int, type_: DataType) -> int | Decimal:
    """Return the value of `count` units of the last digit of an integer or decimal type."""
    return Decimal(count).scaleb(-type_.scale, _WIDE) if type_.kind is Kind.DECIMAL else count


def _as_float(value: float, target: DataType) -> float:
    if target.kind is Kind.DOUBLE:
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _cast_text(value: str, target: DataType) -> Literal:
    text = value.strip()
    match target.kind:
        case Kind.TINYINT | Kind.SMALLINT | Kind.INT | Kind.BIGINT if _LONG.fullmatch(text) and fits_type(
            int(text), target
        ):
            return Literal(int(text), target)
        case Kind.DOUBLE | Kind.FLOAT if len(text) < 400 and _DOUBLE.fullmatch(text):
            return Literal(_as_float(float(text), target), target)
        case Kind.DECIMAL if len(text) <= 60 and re.fullmatch(r"[+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+", text):
            return _cast_exact(Decimal(text), target)
        case Kind.BOOLEAN if text.lower() in _TRUE | _FALSE:
            return Literal(text.lower() in _TRUE, target)
        case Kind.DATE if (day := _read_date(text)) is not None:
            return Literal(day, DATE)
        case Kind.TIMESTAMP if (moment := _read_timestamp(text)) is not None:
            return Literal(moment, TIMESTAMP)
        case Kind.TIMESTAMP_NTZ if (moment := _read_timestamp(text)) is not None:
            return Literal(moment.replace(tzinfo=None), target)
        case Kind.BINARY | Kind.OTHER:
            raise NeedsSpark
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ if _ZONED.fullmatch(text):
            raise NeedsSpark
        case _:
            raise TypeMismatch(f"the text '{value[:80]}' is not a value of type {target.ddl()}")


def _read_date(text: str) -> date | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None


def _read_timestamp(text: str) -> datetime | None:
    """Return the time in UTC, or None; without an offset, the text is in UTC, which is the session's time zone."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int((fraction or "").ljust(6, "0")[:6])
    try:
        moment = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), micros,
            tzinfo=_zone(zone),
        )  # fmt: skip
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    hours, _, minutes = text[1:].partition(":")
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if offset > timedelta(hours=18):
        raise ValueError(text)
    return timezone(-offset if text[0] == "-" else offset)
