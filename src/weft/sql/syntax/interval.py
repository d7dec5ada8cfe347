"""Conditions on the distance of two event times, such as `a.ts <= p.ts + INTERVAL 10 SECONDS`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlglot import exp

from weft.errors import InvalidWindow, UnsupportedQuery
from weft.plan.window import TimeBounds
from weft.sql.syntax.duration import LONGEST, read_micros
from weft.sql.syntax.parse import strip
from weft.sql.syntax.spark_text import short_text

# Returns the relation whose event time a column is; None for other columns.
TimeOf = Callable[[exp.Column], int | None]

_LIMIT = LONGEST // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of event times and `micros`; `times` has the (nonzero) coefficient of each relation's event time."""

    times: Mapping[int, int]
    micros: int

    def plus(self, other: _Sum, sign: int) -> _Sum:
        times = Counter(self.times)
        for relation, count in other.times.items():
            times[relation] += sign * count
        return _Sum({relation: count for relation, count in times.items() if count}, self.micros + sign * other.micros)

    @property
    def degree(self) -> int:
        """The degree of the sum: 1 for a point in time, 0 for a distance."""
        return sum(self.times.values())


def time_bounds(node: exp.Expr, time_of: TimeOf) -> tuple[tuple[int, int], TimeBounds] | None:
    """Return relations i < j and a comparison's bounds on ti − tj; None if it does not compare two event times."""
    if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    left = _sum(node.this, time_of)
    right = None if left is None else _sum(node.expression, time_of)
    if left is None or right is None or left.degree != right.degree or left.degree not in (0, 1):
        return None
    total = left.plus(right, -1)
    if sorted(total.times.values()) != [-1, 1]:
        return None
    if abs(total.micros) > _LIMIT:
        raise InvalidWindow(
            f'the distance in "{short_text(node)}" is too long', hint=f"The longest is {LONGEST.days} days."
        )
    first, second = sorted(total.times)
    low, high = _range(type(node))
    # total = ±(ti − tj) + micros, compared with zero
    if total.times[first] == 1:
        return (first, second), TimeBounds(_shifted(low, -total.micros), _shifted(high, -total.micros))
    return (first, second), TimeBounds(_shifted(_negated(high), total.micros), _shifted(_negated(low), total.micros))


def _range(kind: type[exp.Expr]) -> tuple[int | None, int | None]:
    """Return the smallest and largest x for which `x kind 0` is true."""
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
            return None if relation is None else _Sum({relation: 1}, 0)
        case exp.Interval():
            return _Sum({}, interval_micros(node))
        case exp.Neg():
            inner = _sum(node.this, time_of)
            return None if inner is None or inner.times else _Sum({}, 0).plus(inner, -1)
        case exp.Add() | exp.Sub():
            left = _sum(node.this, time_of)
            right = None if left is None else _sum(node.expression, time_of)
            if left is None or right is None:
                return None
            return left.plus(right, 1 if isinstance(node, exp.Add) else -1)
        case _:
            return None


def interval_micros(node: exp.Interval) -> int:
    """Return the microseconds of an interval literal; refuse months, years and computed intervals."""
    value, unit = node.this, node.args.get("unit")
    if isinstance(value, exp.Literal) and (unit is None or isinstance(unit, exp.Var)):
        micros = read_micros(f"{value.name} {unit.name if unit is not None else ''}")
        if micros is not None:
            return micros
    raise UnsupportedQuery(
        f'the interval "{short_text(node)}" is not supported',
        hint="Write INTERVAL 10 SECONDS, with units from MICROSECONDS to WEEKS.",
    )
