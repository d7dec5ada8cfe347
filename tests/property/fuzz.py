"""`python -m tests.property.fuzz --seconds N --seed S`: schedules one after the other, until time is up or one fails.

A failing schedule is made smaller and printed. `--count 1 --seed S` plays one seed again.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Protocol

from tests.support.generators.features import Features
from tests.support.generators.workload import SMALL, Schedule, Sizes, draw_schedule
from tests.support.harness_api import OpenHarness
from tests.support.oracles.reference import reference_for
from tests.support.run import play
from tests.support.shrink import Fails, describe, shrink

EngineFor = Callable[[Schedule], OpenHarness]


class Shrink(Protocol):
    """Makes a failing schedule smaller."""

    def __call__(self, schedule: Schedule, fails: Fails, *, seconds: float) -> Schedule:
        """A schedule that fails."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if all schedules passed, 1 if one failed."""
    options = _parse(arguments)
    sizes = replace(
        SMALL if options.small else Sizes(rows=options.rows), features=Features(aggregations=options.aggregations)
    )
    engine_for = _engine_for(options.harness)
    until = monotonic() + options.seconds
    seed = first = options.seed
    while monotonic() < until and seed - first < options.count:
        schedule = draw_schedule(seed, sizes)
        if (error := attempt(schedule, engine_for)) is not None:
            report(schedule, error, engine_for, seconds=options.shrink)
            return 1
        seed += 1
        if (seed - first) % 100 == 0:
            print(f"{seed - first} schedules passed, up to seed {seed - 1}", flush=True)
    print(f"{seed - first} schedules passed, seeds {first} to {seed - 1}")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.property.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="at most so many schedules")
    parser.add_argument("--rows", type=int, default=Sizes().rows, help="largest number of rows per stream")
    parser.add_argument("--small", action="store_true", help="small schedules, as on real Spark")
    parser.add_argument(
        "--aggregations",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also aggregations and session windows",
    )
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds to make a failing schedule smaller")
    parser.add_argument(
        "--harness",
        default="tests.support.harness",
        help='module with an open_harness(path, streams, *, partitions); "reference" is the one in plain Python',
    )
    return parser.parse_args(arguments)


def _engine_for(module: str) -> EngineFor:
    """What opens an engine for a schedule; only the reference needs to know which."""
    if module == "reference":
        return reference_for
    open_harness: OpenHarness = importlib.import_module(module).open_harness
    return lambda schedule: open_harness


def attempt(schedule: Schedule, engine_for: EngineFor) -> Exception | None:
    """What playing a schedule raises, None if it passes."""
    with tempfile.TemporaryDirectory(prefix="weft-fuzz-") as directory:
        try:
            play(schedule, engine_for(schedule), Path(directory) / "state")
        except Exception as error:
            return error
    return None


def report(
    schedule: Schedule, error: Exception, engine_for: EngineFor, *, seconds: float, shrink: Shrink = shrink
) -> None:
    """Print an error and the smallest schedule found in time that raises the like."""
    traceback.print_exception(error)
    print(f"seed {schedule.seed} failed; making it smaller for up to {seconds:.0f} s", flush=True)

    def fails(smaller: Schedule) -> bool:
        return type(attempt(smaller, engine_for)) is type(error)

    smallest = shrink(schedule, fails, seconds=seconds)
    print(describe(smallest))
    last = attempt(smallest, engine_for)
    print(f"{type(last).__name__}: {last}")


if __name__ == "__main__":
    raise SystemExit(main())
