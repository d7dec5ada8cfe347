"""Combinations of tuples in a window, and the rows the reference makes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tests.support.generators.data import from_micros
from tests.support.harness_api import Row
from tests.support.oracles.evaluate import Tuple, compare, value_of
from tests.support.oracles.fold import canonical, fold
from tests.support.spec import Call, Col, Grouping, GroupKey, Key, OutputColumn, QuerySpec, Value, relation_of, type_of
from weft.plan.types import Kind


@dataclass(frozen=True, slots=True)
class Arrived:
    """A tuple that was not late, with its event time in microseconds."""

    stream: str
    time: int
    values: Tuple


@dataclass(frozen=True, slots=True)
class Match:
    """One tuple per relation and the window [start, end) it is in, in microseconds."""

    start: int
    end: int
    tuples: tuple[Arrived, ...]


Member = tuple[int, Arrived]
"""A tuple of a session, with the side of the join it is on."""
Cut = Callable[[Sequence[Member], int], list[list[Member]]]


def plain_row(query: QuerySpec, match: Match) -> Row:
    """The row a match is without aggregation."""
    return tuple(
        match.tuples[output.relation].values[output.name] if isinstance(output, Col) else _edges(match)[output.name]
        for output in query.outputs
        if not isinstance(output, GroupKey | Call)
    )


def grouped_rows(query: QuerySpec, grouping: Grouping, matches: Sequence[Match]) -> list[Row]:
    """One row for each window and group that has matches and passes HAVING."""
    groups: dict[Row, list[Match]] = defaultdict(list)
    for match in matches:
        key = tuple(canonical(value) for value in _group(grouping, match))
        groups[match.start, match.end, *key].append(match)
    rows: list[Row] = []
    for members in groups.values():
        tuples = [[arrived.values for arrived in match.tuples] for match in members]
        having = grouping.having
        if having is None or compare(having.op, fold(having.call, tuples), having.constant.value) is True:
            rows.append(tuple(_grouped_value(output, grouping, members[0], tuples) for output in query.outputs))
    return rows


def _grouped_value(output: OutputColumn, grouping: Grouping, match: Match, tuples: Sequence[Sequence[Tuple]]) -> Value:
    if isinstance(output, Call):
        return fold(output, tuples)
    if isinstance(output, GroupKey):
        return _group(grouping, match)[output.number]
    return _edges(match)[output.name]


def _group(grouping: Grouping, match: Match) -> tuple[Value, ...]:
    return tuple(value_of(key, match.tuples[relation_of(key)].values) for key in grouping.keys)


def _edges(match: Match) -> Mapping[str, Value]:
    return {"window_start": from_micros(match.start), "window_end": from_micros(match.end)}


def session_matches(query: QuerySpec, kept: Sequence[Sequence[Arrived]], gap: int, *, cut: Cut) -> Iterator[Match]:
    """Every combination of tuples of one session; `cut` makes sessions of all tuples of one key."""
    sides, longest = range(len(query.relations)), query.session.longest if query.session is not None else None
    members: dict[Row, list[Member]] = defaultdict(list)
    for side in sides:
        for arrived in kept[side]:
            key = _session_key(query, side, arrived)
            if key is not None:
                members[0 if longest is None else arrived.time // longest, *key].append((side, arrived))
    for (stretch, *_), tuples in members.items():
        assert isinstance(stretch, int)
        for session in cut(tuples, gap):
            times = [arrived.time for _, arrived in session]
            end = max(times) + gap if longest is None else min(max(times) + gap, (stretch + 1) * longest)
            for combination in product(*([arrived for role, arrived in session if role == side] for side in sides)):
                yield Match(min(times), end, combination)


def _session_key(query: QuerySpec, side: int, arrived: Arrived) -> Row | None:
    """What sessions are formed per: the group, or the join key, of which a tuple without takes no part."""
    if len(query.relations) == 1:
        assert query.grouping is not None
        return tuple(canonical(value_of(key, arrived.values)) for key in query.grouping.keys)
    if query.conditions:
        values = tuple(canonical(arrived.values[column.name]) for column in query.session_columns(side))
    else:
        values = tuple(_join_key(key, side, arrived) for key in query.keys)
    return None if None in values else values


def _join_key(key: Key, side: int, arrived: Arrived) -> Value:
    """A double on one side makes both doubles."""
    value = value_of(key.right if side else key.left, arrived.values)
    if value is None or Kind.DOUBLE not in (type_of(key.left).kind, type_of(key.right).kind):
        return value
    assert isinstance(value, int | float)
    return canonical(float(value))
