"""Predicates on one attribute as sets of key ranges, in three-valued logic.

An attribute is a column, or any expression over columns, that is compared with constants. Keys are integers, strings or
bytes in Spark's order. Every key has an immediate successor, so all ranges are half-open.
"""

from __future__ import annotations

import decimal
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

from weft.plan.expression import Call, Column, Expression, Literal, Opaque, Value
from weft.plan.types import INTEGERS, DataType, Kind

Key: TypeAlias = int | str | bytes

_ORDER = {kind: rank for rank, kind in enumerate(INTEGERS)}
_INDEXED = frozenset(kind for kind in Kind if kind not in (Kind.NULL, Kind.OTHER))
_EPOCH_DAY, _EPOCH, _EPOCH_NTZ = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)  # noqa: DTZ001
_TICK = timedelta(microseconds=1)
_SIGNLESS = 2**63 - 1
_NAN_KEY = struct.unpack("<q", struct.pack("<d", float("nan")))[0] & _SIGNLESS
_EXACT = decimal.Context(prec=80)
_MIRROR = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True, slots=True)
class Ranges:
    """A set of keys: membership is `low` below the first cut and flips at each cut; `null` is membership of NULL."""

    low: bool
    cuts: tuple[Key, ...]
    null: bool


NOTHING = Ranges(False, (), False)
NULL_ONLY = Ranges(False, (), True)
NOT_NULL = Ranges(True, (), False)
IS_TRUE, IS_FALSE = Ranges(False, (1,), False), Ranges(True, (1,), False)


def satisfying(predicate: Expression) -> tuple[Expression, Ranges]:
    """Return an attribute (at worst the predicate itself) and the ranges of its values where the predicate is TRUE."""
    return ranges_of(predicate, True) or (predicate, IS_TRUE)


def intersect(first: Ranges, second: Ranges) -> Ranges:
    """Return the keys in both sets."""
    return _combine(first, second, both=True)


def unite(first: Ranges, second: Ranges) -> Ranges:
    """Return the keys in at least one of the sets."""
    return _combine(first, second, both=False)


def to_key(value: Value, type_: DataType) -> Key:
    """Return the key of a constant that is not NULL."""
    match value, type_.kind:
        case ((str() | bytes()), _):
            return value
        case bool() | int(), (Kind.FLOAT | Kind.DOUBLE):
            return float_key(float(value))
        case bool() | int(), Kind.DECIMAL:
            return int(value) * int(10**type_.scale)
        case bool() | int(), _:
            return int(value)
        case float(), Kind.FLOAT:
            return float_key(_single(value))
        case float(), _:
            return float_key(value)
        case decimal.Decimal(), _:
            return int(value.scaleb(type_.scale, context=_EXACT))
        case datetime(), _:
            return (value - (_EPOCH if value.tzinfo else _EPOCH_NTZ)) // _TICK
        case date(), _:
            return (value - _EPOCH_DAY).days
        case _:
            raise AssertionError(f"no key for {value!r}")


def float_key(value: float) -> int:
    """Return an integer that sorts like the number: -0.0 equals 0.0, and NaN is a single value above all others."""
    if value != value:  # noqa: PLR0124 - NaN
        return int(_NAN_KEY)
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits ^ _SIGNLESS if bits < 0 else bits


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def ranges_of(predicate: Expression, truth: bool) -> tuple[Expression, Ranges] | None:
    """Return the attribute and its values where the predicate is TRUE (or FALSE); None without a single attribute."""
    match predicate:
        case Call(name="not", args=(arg,)):
            return ranges_of(arg, not truth)
        case Call(name="and" | "or" as name, args=args):
            return _connect(args, truth, both=(name == "and") == truth)
        case Call(name="is_null" | "is_not_null" as name, args=(arg,)) if _indexed(arg):
            return _attribute(arg), NULL_ONLY if (name == "is_null") == truth else NOT_NULL
        case Call(name="eq" | "ne" | "lt" | "le" | "gt" | "ge" as name, args=(left, Literal() as right)) if _same(
            left, right
        ):
            return _attribute(left), _comparison(name, right, truth)
        case Call(name="eq" | "ne" | "lt" | "le" | "gt" | "ge" as name, args=(Literal() as left, right)) if _same(
            right, left
        ):
            return _attribute(right), _comparison(_MIRROR[name], left, truth)
        case Call(name="eq_null_safe", args=(left, Literal() as right)) if _same(left, right):
            return _attribute(left), _null_safe(right, truth)
        case Call(name="in", args=(left, *options)) if all(_same(left, option) for option in options):
            return _attribute(left), _membership(options, truth)
        case Literal() | Column() | Call() | Opaque():
            return predicate, IS_TRUE if truth else IS_FALSE


def _connect(args: tuple[Expression, ...], truth: bool, *, both: bool) -> tuple[Expression, Ranges] | None:
    results = [ranges_of(arg, truth) for arg in args]
    result = results[0]
    for other in results[1:]:
        if result is None or other is None or other[0] != result[0]:
            return None
        result = result[0], _combine(result[1], other[1], both=both)
    return result


def _attribute(expression: Expression) -> Expression:
    """Strip casts that keep every key, so that comparing an int as bigint is comparing the int."""
    match expression:
        case Call(name="cast", args=(inner,), type=type_) if inner.type is not None:
            source, target = inner.type.kind, type_.kind
            widened = source in _ORDER and target in _ORDER and _ORDER[source] <= _ORDER[target]
            if widened or (source is Kind.FLOAT and target is Kind.DOUBLE):
                return _attribute(inner)
            return expression
        case _:
            return expression


def _indexed(expression: Expression) -> bool:
    return expression.type is not None and expression.type.kind in _INDEXED


def _same(value: Expression, constant: Expression) -> bool:
    return (
        isinstance(constant, Literal)
        and not isinstance(value, Literal)
        and value.type == constant.type
        and constant.type.kind in _INDEXED
    )


def _comparison(name: str, literal: Literal, truth: bool) -> Ranges:
    if literal.value is None:
        return NOTHING
    key = to_key(literal.value, literal.type)
    match name:
        case "lt" | "ge":
            return Ranges((name == "lt") == truth, (key,), False)
        case "le" | "gt":
            return Ranges((name == "le") == truth, (_next(key),), False)
        case _:
            return Ranges((name == "ne") == truth, (key, _next(key)), False)


def _null_safe(literal: Literal, truth: bool) -> Ranges:
    if literal.value is None:
        return NULL_ONLY if truth else NOT_NULL
    key = to_key(literal.value, literal.type)
    return Ranges(not truth, (key, _next(key)), not truth)


def _membership(options: list[Expression], truth: bool) -> Ranges:
    constants = [option for option in options if isinstance(option, Literal)]
    present = {to_key(option.value, option.type) for option in constants if option.value is not None}
    if not truth and any(option.value is None for option in constants):
        return NOTHING
    flips: set[Key] = set()
    for key in present:
        flips ^= {key, _next(key)}  # adjacent keys share an edge, which cancels out
    return Ranges(not truth, tuple(sorted(flips)), False)


def _next(key: Key) -> Key:
    match key:
        case int():
            return key + 1
        case str():
            return key + "\0"
        case bytes():
            return key + b"\0"


def _combine(first: Ranges, second: Ranges, *, both: bool) -> Ranges:
    def decide(left: bool, right: bool) -> bool:
        return (left and right) if both else (left or right)

    in_first, in_second = first.low, second.low
    low = inside = decide(in_first, in_second)
    cuts: list[Key] = []
    flips_first, flips_second = frozenset(first.cuts), frozenset(second.cuts)
    for cut in sorted(flips_first | flips_second):
        in_first ^= cut in flips_first
        in_second ^= cut in flips_second
        if decide(in_first, in_second) != inside:
            inside = not inside
            cuts.append(cut)
    return Ranges(low, tuple(cuts), decide(first.null, second.null))
