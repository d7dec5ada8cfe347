"""The engine in this process with plans of one's own choosing: random ones show whether plans change results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.property.fuzz import EngineFor
from tests.support.generators.workload import Schedule
from tests.support.harness import CoreHarness
from tests.support.harness_api import OpenHarness
from weft.plan.stream import Stream
from weft.planner.joins.planners import Planner, choosing_planner, plan_probes

PlannerFor = Callable[[int], Planner]
"""A planner from a seed."""


class MultiwayHarness(CoreHarness):
    """An engine with another planner each time it is opened: a restart may plan otherwise than the engine before it."""

    def __init__(
        self, path: Path, streams: Sequence[Stream], *, partitions: int, planner_for: PlannerFor, seed: int
    ) -> None:
        super().__init__(path, streams, partitions=partitions, planner=planner_for(seed))
        self._planner_for = planner_for
        self._seed = seed

    def reopen(self, partitions: int) -> None:
        self._seed += 1
        self._planner = self._planner_for(self._seed)
        super().reopen(partitions)


def planned_by(planner_for: PlannerFor) -> EngineFor:
    """Engines for schedules, with planners seeded by the schedule."""

    def engine_for(schedule: Schedule) -> OpenHarness:
        def open_harness(path: Path, streams: Sequence[Stream], *, partitions: int) -> MultiwayHarness:
            seed = 1000 * schedule.seed
            return MultiwayHarness(path, streams, partitions=partitions, planner_for=planner_for, seed=seed)

        return open_harness

    return engine_for


def random_plans() -> EngineFor:
    """Engines that take any valid plan."""
    return planned_by(lambda seed: choosing_planner(Random(seed).choice))


def own_plans() -> EngineFor:
    """Engines that take the plan they find best."""
    return planned_by(lambda seed: plan_probes)
