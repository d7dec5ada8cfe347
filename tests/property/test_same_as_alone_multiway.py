"""The contract for joins of several relations: whatever else runs and whatever the plan, a query's rows are its own.

`WEFT_MULTIWAY_SCHEDULES=5000` plays as many schedules.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import note

from tests.property.fuzz import EngineFor
from tests.support.by_seed import by_seed
from tests.support.generators.multiway import AGGREGATED, MULTIWAY, SESSIONS, draw_multiway_schedule
from tests.support.generators.workload import Sizes
from tests.support.multiway_harness import own_plans, random_plans
from tests.support.run import play

SCHEDULES = int(os.environ.get("WEFT_MULTIWAY_SCHEDULES", "100"))

# (name, seed) of schedules that failed once with random plans; the name says what was wrong.
REGRESSIONS: tuple[tuple[str, int], ...] = (
    ("intermediate results that a crashed restart had freed were looked for by the next plan", 16),
    ("combinations were lost that had to wait longer than one stage for a store", 21),
    ("a store that one plan had freed was taken as complete by the next", 101),
    ("what one plan had freed of a store for one query was taken as complete by the next", 9019),
)


@by_seed(SCHEDULES)
def test_same_as_alone_multiway(seed: int) -> None:
    """With plans drawn at random, so that no plan changes a result."""
    note(f"play it again: python -m tests.property.fuzz_multiway --count 1 --seed {seed}")
    _run(seed, random_plans())


@by_seed(max(1, SCHEDULES // 4))
def test_same_as_alone_multiway_with_the_best_plans(seed: int) -> None:
    note(f"play it again: python -m tests.property.fuzz_multiway --plans own --count 1 --seed {seed}")
    _run(seed, own_plans())


@by_seed(max(1, SCHEDULES // 4))
def test_same_as_alone_multiway_aggregated(seed: int) -> None:
    """Most queries aggregate what they join."""
    note(f"play it again: python -m tests.property.fuzz_multiway --aggregated --count 1 --seed {seed}")
    _run(seed, random_plans(), AGGREGATED)


@by_seed(max(1, SCHEDULES // 4))
def test_same_as_alone_multiway_in_sessions(seed: int) -> None:
    """Most queries have session windows, and some aggregate what is in them."""
    again = "--sessions --aggregated"
    note(f"play it again: python -m tests.property.fuzz_multiway {again} --count 1 --seed {seed}")
    _run(seed, own_plans(), SESSIONS)


def test_regressions() -> None:
    for name, seed in REGRESSIONS:
        try:
            _run(seed, random_plans())
        except Exception as error:
            error.add_note(f"regression: {name}")
            raise


def _run(seed: int, engine_for: EngineFor, sizes: Sizes = MULTIWAY) -> None:
    schedule = draw_multiway_schedule(seed, sizes)
    with tempfile.TemporaryDirectory(prefix="weft-property-") as directory:
        play(schedule, engine_for(schedule), Path(directory) / "state")
