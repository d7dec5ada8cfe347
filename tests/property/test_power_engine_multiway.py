"""Schedules of joins find mistakes in the engine itself: one of its functions is made wrong, and that is found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.property.fuzz import attempt
from tests.support.generators.multiway import MULTIWAY, SESSIONS, draw_multiway_schedule
from tests.support.generators.workload import Schedule, Sizes
from tests.support.multiway_harness import random_plans
from tests.support.run import Mismatch
from weft.execution.join import probe_step as hop
from weft.execution.join import probe_tree as walk
from weft.execution.join import session_join, store_view
from weft.execution.join.store_view import StoreView, StoreViews
from weft.kernels.join import and_sets as combine
from weft.plan.probe_tree import Probe
from weft.storage.combinations import Combinations

SCHEDULES = 80

Patch = Callable[[pytest.MonkeyPatch], None]


def forgets_filters(patch: pytest.MonkeyPatch) -> None:
    """Conditions over whole combinations are not tested."""

    def all_true(self: hop.StepConditions, found: Combinations, *_: object) -> Combinations:
        return found

    patch.setattr(hop.StepConditions, "true_for", all_true)


def forgets_comparisons(patch: pytest.MonkeyPatch) -> None:
    """Comparisons are not tested beyond what the search for candidates does by itself."""

    def all_true(self: hop.StepConditions, found: Combinations, *_: object) -> Combinations:
        return found

    patch.setattr(hop.StepConditions, "true", all_true)


def forgets_other_equalities(patch: pytest.MonkeyPatch) -> None:
    """Of several equalities, only the one that divides the work counts."""

    def all_equal(self: hop.ProbeStep, seen: StoreView, pairs: tuple[Any, Any]) -> Any:
        return np.ones(len(pairs[0]), np.bool_)

    patch.setattr(hop.ProbeStep, "_equal", all_equal)


def forgets_distances(patch: pytest.MonkeyPatch) -> None:
    """The times of a new member are compared with those of one member only."""

    def of_one(*arguments: Any, distances: Sequence[Any], **more: Any) -> Any:
        return combine.combine_sets(*arguments, distances=list(distances)[:1], **more)

    patch.setattr(hop, "combine_sets", of_one)


def sees_too_much(patch: pytest.MonkeyPatch) -> None:
    """Every new tuple sees all others of its batch, so that a combination is found by each of its new tuples."""
    usual = StoreViews.seen

    def seen(self: StoreViews, probe: Probe, *, rebuild: bool) -> Iterator[StoreView]:
        yield from usual(self, probe, rebuild=rebuild)
        if len(probe.added) == 1 and probe.added[0] < probe.start and not rebuild:
            for each in self.fresh:
                if each.bucket.store == probe.store:
                    yield from self._parts(probe, each.bucket)

    patch.setattr(StoreViews, "seen", seen)


def sends_to_one(patch: pytest.MonkeyPatch) -> None:
    """What waits for the next stage goes to the first of the tasks that need it."""
    usual = walk._partitions_of
    patch.setattr(walk, "_partitions_of", lambda hashes, partitions: usual(hashes, partitions)[:1])


def forgets_changelogs(patch: pytest.MonkeyPatch) -> None:
    """Rows tagged for a query that was dropped are taken for those of the query that has its slot now."""
    patch.setattr(store_view, "meaning_of", lambda task, program, bucket: bucket.slots)


def forgets_gathered_keys(patch: pytest.MonkeyPatch) -> None:
    """All rows of a partition are in the sessions of one key."""
    patch.setattr(session_join, "_key_numbers", lambda sides: [np.zeros(len(side), np.int64) for side in sides])


def frees_open_sessions(patch: pytest.MonkeyPatch) -> None:
    """Buckets are freed although sessions of their rows go on."""
    usual = session_join._Closing.run

    def run(self: Any, *arguments: Any) -> Any:
        closed = usual(self, *arguments)
        closed.open = set()
        return closed

    patch.setattr(session_join._Closing, "run", run)


@cache
def drawn(seed: int, sizes: Sizes = MULTIWAY) -> Schedule:
    return draw_multiway_schedule(seed, sizes)


@pytest.mark.parametrize(
    "mistake",
    [
        forgets_filters, forgets_comparisons, forgets_other_equalities, forgets_distances, sees_too_much, sends_to_one,
        forgets_changelogs,
    ],
)  # fmt: skip
def test_mistake_is_found(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    engine_for = random_plans()
    seed = next((seed for seed in range(SCHEDULES) if isinstance(attempt(drawn(seed), engine_for), Mismatch)), None)
    assert seed is not None, f"{SCHEDULES} schedules did not find: {mistake.__doc__}"


@pytest.mark.parametrize("mistake", [forgets_filters, forgets_gathered_keys, frees_open_sessions])
def test_mistake_in_sessions_is_found(mistake: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    engine_for = random_plans()
    found = (seed for seed in range(SCHEDULES) if isinstance(attempt(drawn(seed, SESSIONS), engine_for), Mismatch))
    assert next(found, None) is not None, f"{SCHEDULES} schedules did not find: {mistake.__doc__}"
