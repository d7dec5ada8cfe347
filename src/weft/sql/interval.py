"""Conditions on the distance of two event times: `a.ts <= p.ts + INTERVAL 10 SECONDS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from sqlglot import exp

from weft.errors import InvalidWindow, UnsupportedQuery
from weft.plan.window import TimeBounds
from weft.sql.duration import LONGEST, read_micros
from weft.sql.parse import strip
from weft.sql.text import short_text

# Which relation's event time a column is, or None.
TimeOf = Callable[[exp.Column], int | None]

_LIMIT = LONGEST // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Sum:
    """first · t0 + second · t1 + micros."""

    first: int
    second: int
    micros: int

    def plus(self, other: _Sum, sign: int) -> _Sum:
        return _Sum(
            self.first + sign * other.first, self.second + sign * other.second, self.micros + sign * other.micros
        )

    @property
    def times(self) -> int:
        """1 for a point in time, 0 for a distance."""
        return self.first + self.second


def time_bounds(node: exp.Expr, time_of: TimeOf) -> TimeBounds | None:
    """What a comparison says about t0 − t1; None if it is not about the distance of the two event times."""
    if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    left, right = _sum(node.this, time_of), _sum(node.expression, time_of)
    if left is None or right is None or left.times != right.times or left.times not in (0, 1):
        return None
    total = left.plus(right, -1)
    if (total.first, total.second) not in ((1, -1), (-1, 1)):
        return None
    if abs(total.micros) > _LIMIT:
        raise InvalidWindow(
            f'the distance in "{short_text(node)}" is too long', hint=f"The longest is {LONGEST.days} days."
        )
    low, high = _range(type(node))
    # total = ±(t0 − t1) + micros, compared with zero
    if total.first == 1:
        return TimeBounds(_shifted(low, -total.micros), _shifted(high, -total.micros))
    return TimeBounds(_shifted(_negated(high), total.micros), _shifted(_negated(low), total.micros))


def _range(kind: type[exp.Expr]) -> tuple[int | None, int | None]:
    """Values x with `x kind 0`, both ends included."""
    if kind is exp.EQ:
        return 0, 0
    if kind is exp.LT:
        return None, -1
    if kind is exp.LTE:
        return None, 0
    return (1, None) if kind is exp.GT else (0, None)


def _shifted(end: int | None, by: int) -> int | None:
    return None if end is None else end + by


def _negated(end: int | None) -> int | None:
    return None if end is None else -end


def _sum(node: exp.Expr, time_of: TimeOf) -> _Sum | None:
    node = strip(node)
    match node:
        case exp.Column():
            relation = time_of(node)
            return None if relation is None else _Sum(1 - relation, relation, 0)
        case exp.Interval():
            return _Sum(0, 0, interval_micros(node))
        case exp.Neg():
            inner = _sum(node.this, time_of)
            return None if inner is None or inner.times else _Sum(0, 0, 0).plus(inner, -1)
        case exp.Add() | exp.Sub():
            left, right = _sum(node.this, time_of), _sum(node.expression, time_of)
            if left is None or right is None:
                return None
            return left.plus(right, 1 if isinstance(node, exp.Add) else -1)
        case _:
            return None


def interval_micros(node: exp.Interval) -> int:
    """Microseconds of an interval literal; raises `UnsupportedQuery` for months, years and computed intervals."""
    value, unit = node.this, node.args.get("unit")
    if isinstance(value, exp.Literal) and (unit is None or isinstance(unit, exp.Var)):
        micros = read_micros(f"{value.name} {unit.name if unit is not None else ''}")
        if micros is not None:
            return micros
    raise UnsupportedQuery(
        f'the interval "{short_text(node)}" is not supported',
        hint="Write INTERVAL 10 SECONDS, with units from MICROSECONDS to WEEKS.",
    )
