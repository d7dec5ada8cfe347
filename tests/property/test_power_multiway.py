"""Schedules of joins find mistakes: each of these engines is wrong in one small way, and is found out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.generators.columns import relations_in
from tests.support.generators.multiway import MULTIWAY, draw_multiway_schedule, queries_of
from tests.support.generators.workload import Batch, Schedule
from tests.support.oracles.evaluate import holds
from tests.support.oracles.matches import Arrived
from tests.support.oracles.multiway_reference import (
    Chosen,
    Combination,
    MultiwayReference,
    combined_row,
    over_combinations,
)
from tests.support.oracles.reference import Running, reference_for
from tests.support.run import Mismatch, play
from tests.support.shrink import describe
from tests.support.shrink_queries import shrink_all
from tests.support.spec import Between, Compare, Predicate, QuerySpec, Range, Sliding, Unbounded

SCHEDULES = 80
SIZES = replace(MULTIWAY, rows=24)


class NeighboursOnly(MultiwayReference):
    """Compares the event times of relations that stand beside each other only."""

    def _close(self, query: QuerySpec, pair: Combination) -> bool:
        if not query.conditions:
            return super()._close(query, pair)
        sides = pairwise(range(len(pair)))
        return all(_near(query, pair, first, second) for first, second in sides)


def _near(query: QuerySpec, pair: Combination, first: int, second: int) -> bool:
    older, younger = sorted((first, second), key=lambda side: pair[side].time)
    window = query.relations[older].window
    return not isinstance(window, Range) or pair[younger].time - pair[older].time < window.size


class RangeOfTheFirst(MultiwayReference):
    """Takes the first relation's range for all."""

    def _close(self, query: QuerySpec, pair: Combination) -> bool:
        window = query.relations[0].window
        relations = tuple(
            relation if relation.window is None else replace(relation, window=window or Unbounded())
            for relation in query.relations
        )
        return super()._close(replace(query, relations=relations), pair)


class ClosedRanges(MultiwayReference):
    """Takes tuples exactly a range older than the latest."""

    def _close(self, query: QuerySpec, pair: Combination) -> bool:
        relations = tuple(
            replace(relation, window=Range(relation.window.size + 1))
            if isinstance(relation.window, Range)
            else relation
            for relation in query.relations
        )
        return super()._close(replace(query, relations=relations), pair)


class WindowsOfTwo(MultiwayReference):
    """Looks for windows that hold the first two tuples."""

    def _windows(self, window: Sliding, pair: Combination, start: int | None) -> Iterator[int]:
        return super()._windows(window, pair[:2], start)


class NeverThree(MultiwayReference):
    """Forgets conditions over three relations."""

    def _holds(self, condition: Predicate, chosen: Chosen) -> bool:
        return len(relations_in(condition)) > 2 or super()._holds(condition, chosen)


class NoCycles(MultiwayReference):
    """Checks one condition only whenever a relation is added."""

    def _completed(self, query: QuerySpec, chosen: frozenset[int], newest: int) -> Sequence[Predicate]:
        return super()._completed(query, chosen, newest)[:1]


class UnknownIsTrue(MultiwayReference):
    """Takes combinations for which a condition is neither true nor false."""

    def _holds(self, condition: Predicate, chosen: Chosen) -> bool:
        return holds(over_combinations(condition), combined_row(chosen)) is not False


class OpenComparisons(MultiwayReference):
    """Takes <= for <."""

    def _holds(self, condition: Predicate, chosen: Chosen) -> bool:
        if isinstance(condition, Compare) and condition.op == "<=":
            return super()._holds(replace(condition, op="<"), chosen)
        return super()._holds(condition, chosen)


class OneSidedBetween(MultiwayReference):
    """Forgets the upper end of BETWEEN."""

    def _holds(self, condition: Predicate, chosen: Chosen) -> bool:
        if isinstance(condition, Between):
            return super()._holds(Compare(">=", condition.value, condition.low), chosen)
        return super()._holds(condition, chosen)


class OneRoleAtATime(MultiwayReference):
    """A row does not meet itself in another role."""

    def _emit(self, running: Running, pair: Combination) -> None:
        if len({id(arrived) for arrived in pair}) == len(pair):
            super()._emit(running, pair)


class LastDoesNotProbe(MultiwayReference):
    """Tuples of the last relation are kept, but do not look for what came before them."""

    def _first_roles(self, query: QuerySpec, roles: Sequence[int]) -> Sequence[int]:
        return [side for side in roles if side < len(query.relations) - 1 or not query.conditions]


class TwiceInTwoRoles(MultiwayReference):
    """A combination with one row in two roles is found once for each of them."""

    def _emit(self, running: Running, pair: Combination) -> None:
        super()._emit(running, pair)
        if len(pair) > 2 and len({id(arrived) for arrived in pair}) < len(pair):
            super()._emit(running, pair)


class SharedFilters(MultiwayReference):
    """Takes the filter that another query has on the same stream."""

    def _wants(self, running: Running, side: int, new: Arrived) -> bool:
        query, stream = running.query, running.query.relations[side].stream
        others = [each.query for each in self._live.values() if each is not running and each.query.conditions]
        filters = [relation.predicate for other in others for relation in other.relations if relation.stream == stream]
        if not query.conditions or not filters:
            return super()._wants(running, side, new)
        relation = replace(query.relations[side], predicate=filters[0])
        changed = replace(query, relations=(*query.relations[:side], relation, *query.relations[side + 1 :]))
        return super()._wants(Running(changed, running.start), side, new)


class StartOfAnother(MultiwayReference):
    """A query that shares a stream with an older one sees what that one has kept."""

    def _boundary(self) -> None:
        older = list(self._live.values())
        created = list(self._created)
        super()._boundary()
        for running in (self._newest[name] for name in created):
            for side, relation in enumerate(running.query.relations):
                for other in older:
                    first = other.query.relations[0]
                    if running.query.conditions and other.query.conditions and first.stream == relation.stream:
                        running.kept[side].extend(other.kept[0])


ENGINES = (
    NeighboursOnly, RangeOfTheFirst, ClosedRanges, WindowsOfTwo, NeverThree, NoCycles, UnknownIsTrue, OpenComparisons,
    OneSidedBetween, OneRoleAtATime, LastDoesNotProbe, TwiceInTwoRoles, SharedFilters, StartOfAnother,
)  # fmt: skip


@cache
def drawn(seed: int) -> Schedule:
    return draw_multiway_schedule(seed, SIZES)


@pytest.mark.parametrize("engine", ENGINES)
def test_mistake_is_found(engine: type[MultiwayReference], tmp_path: Path) -> None:
    seed = next((seed for seed in range(SCHEDULES) if fails(drawn(seed), engine, tmp_path)), None)
    assert seed is not None, f"{SCHEDULES} schedules did not find {engine.__doc__}"


def test_failing_schedule_and_its_query_become_small(tmp_path: Path) -> None:
    """A row that meets itself, perhaps by way of another one."""
    seed = next(seed for seed in range(SCHEDULES) if fails(drawn(seed), OneRoleAtATime, tmp_path))
    smallest = shrink_all(drawn(seed), lambda each: fails(each, OneRoleAtATime, tmp_path), seconds=20)
    (query,) = queries_of(smallest)
    batches = [step for step in smallest.steps if isinstance(step, Batch)]
    rows = [row for batch in batches for pieces in batch.input.values() for piece in pieces for row in piece]
    assert len(query.relations) <= 3, describe(smallest)
    assert len(query.conditions) <= 2, describe(smallest)
    assert len(rows) <= 2, describe(smallest)


def fails(schedule: Schedule, engine: type[MultiwayReference], path: Path) -> bool:
    try:
        play(schedule, reference_for(schedule, engine), path)
    except Mismatch:
        return True
    return False
