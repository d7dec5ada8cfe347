"""What one pass over the rows has to find out for many queries at once, as values; or why there is no such pass."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from weft_bench.workloads.shapes import (
    Aggregate,
    CannotSay,
    Function,
    Grouped,
    NearJoin,
    Relation,
    Shape,
    Sliding,
    aliases,
    columns_of,
    local,
)

MICROS = 1_000_000
_EQUALITY = re.compile(r"(\w+)\.(\w+) = (\w+)\.(\w+)")


@dataclass(frozen=True, slots=True)
class JoinPass:
    """Joins of the same two streams by the same keys: each with conditions on either side and a reach."""

    relations: tuple[Relation, Relation]
    keys: tuple[tuple[str, str], ...]
    """Columns of the first and of the second relation that are equal."""
    conditions: tuple[tuple[str, str], ...]
    """Of each query, on the first and on the second relation."""
    reaches: tuple[int, ...]
    """Of each query, the seconds that rows are less than apart."""

    @property
    def widest(self) -> int:
        """The longest reach."""
        return max(self.reaches)

    def columns(self, side: int) -> list[str]:
        """Columns of a relation that keys and conditions read, but for its event time."""
        alias = self.relations[side].alias
        texts = [*(each[side] for each in self.conditions), *(f"{alias}.{pair[side]}" for pair in self.keys)]
        return columns_of(alias, texts)


@dataclass(frozen=True, slots=True)
class SlicedAggregate:
    """A query's condition, aggregates and window."""

    condition: str
    aggregates: tuple[Aggregate, ...]
    window: Sliding


@dataclass(frozen=True, slots=True)
class AggregatePass:
    """Window aggregates over one stream by the same keys: rows are added up by slices that all windows consist of."""

    relation: Relation
    keys: tuple[str, ...]
    """Columns."""
    queries: tuple[SlicedAggregate, ...]

    @property
    def slice_seconds(self) -> int:
        """The longest slices that every window consists of."""
        return math.gcd(*(seconds for each in self.queries for seconds in (each.window.seconds, each.window.slide)))


SharedPass = JoinPass | AggregatePass


def shared_pass(shapes: Sequence[Shape]) -> SharedPass:
    """The one pass for all these queries; raises CannotSay if there is none."""
    joins = [shape for shape in shapes if isinstance(shape, NearJoin)]
    groups = [shape for shape in shapes if isinstance(shape, Grouped)]
    if joins and len(joins) == len(shapes):
        return _join_pass(joins)
    if groups and len(groups) == len(shapes):
        return _aggregate_pass(groups)
    raise CannotSay("no shared pass: the queries are neither all joins nor all aggregates")


def _join_pass(joins: Sequence[NearJoin]) -> JoinPass:
    first = joins[0]
    across = [each for each in first.conditions if len(aliases(each)) > 1]
    equalities = [_EQUALITY.fullmatch(each) for each in across]
    if any(
        join.relations != first.relations
        or join.after
        or [each for each in join.conditions if len(aliases(each)) > 1] != across
        for join in joins
    ):
        raise CannotSay("no shared pass: the joins are of different streams or by different conditions")
    if len(first.relations) != 2 or len({each.stream for each in first.relations}) != 2 or None in equalities:
        raise CannotSay("no shared pass: a join is not of two streams by equal columns")
    left, right = first.relations
    pairs = [each.groups() for each in equalities if each is not None]
    return JoinPass(
        relations=(left, right),
        keys=tuple((b, d) if a == left.alias else (d, b) for a, b, _, d in pairs),
        conditions=tuple((_all(join.conditions, left), _all(join.conditions, right)) for join in joins),
        reaches=tuple(join.seconds for join in joins),
    )


def _aggregate_pass(groups: Sequence[Grouped]) -> AggregatePass:
    first = groups[0]
    if any(group.relations != first.relations or group.keys != first.keys for group in groups):
        raise CannotSay("no shared pass: the aggregates are of different streams or by different keys")
    if len(first.relations) != 1 or any(group.having for group in groups):
        raise CannotSay("no shared pass: an aggregate is over a join or has conditions on its results")
    [relation] = first.relations
    keys = tuple(each.expression.removeprefix(f"{relation.alias}.") for each in first.keys)
    return AggregatePass(relation, keys, tuple(_sliced(group, relation) for group in groups))


def _sliced(group: Grouped, relation: Relation) -> SlicedAggregate:
    if not isinstance(group.window, Sliding):
        raise CannotSay("no shared pass: sessions do not consist of slices")
    for each in group.aggregates:
        if each.condition or each.function is Function.DISTINCT:
            raise CannotSay(f"no shared pass: {each.sql()} cannot be added up from slices")
    return SlicedAggregate(_all(group.conditions, relation), group.aggregates, group.window)


def _all(conditions: Sequence[str], relation: Relation) -> str:
    found = local(conditions, relation.alias)
    return " AND ".join(f"({each})" for each in found) if found else "TRUE"
