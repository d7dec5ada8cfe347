"""`python -m tests.property.fuzz_multiway --seconds N --seed S`: joins of several relations until time is up.

A failing schedule is made smaller and printed. `--count 1 --seed S` plays one seed again.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from time import monotonic

from tests.property.fuzz import EngineFor, attempt, report
from tests.support.generators.multiway import MULTIWAY, draw_multiway_schedule
from tests.support.multiway_harness import own_plans, random_plans
from tests.support.oracles.multiway_reference import MultiwayReference
from tests.support.oracles.reference import reference_for
from tests.support.shrink_queries import shrink_all


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if all schedules passed, 1 if one failed."""
    options = _parse(arguments)
    features = replace(
        MULTIWAY.features,
        aggregations=options.aggregations,
        aggregated_many=options.aggregated,
        sessions_of_many=options.sessions,
    )
    sizes = replace(MULTIWAY, rows=options.rows, crowds=options.crowds, features=features)
    engine_for = _engine_for(options.plans)
    failed: list[int] = []
    until = monotonic() + options.seconds
    seed = first = options.seed
    while monotonic() < until and seed - first < options.count:
        schedule = draw_multiway_schedule(seed, sizes)
        if (error := attempt(schedule, engine_for)) is not None:
            report(schedule, error, engine_for, seconds=options.shrink, shrink=shrink_all)
            failed.append(seed)
            if not options.keep_going:
                break
        seed += 1
        if (seed - first) % 100 == 0:
            print(f"{seed - first} schedules played, up to seed {seed - 1}", flush=True)
    print(f"{seed - first} schedules played from seed {first} on; failed: {failed or 'none'}")
    return 1 if failed else 0


def _engine_for(plans: str) -> EngineFor:
    match plans:
        case "random":
            return random_plans()
        case "own":
            return own_plans()
        case _:
            return lambda schedule: reference_for(schedule, MultiwayReference)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.property.fuzz_multiway", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="at most so many schedules")
    parser.add_argument("--rows", type=int, default=MULTIWAY.rows, help="largest number of rows per stream")
    parser.add_argument("--crowds", type=float, default=0.0, help="share of schedules with more than 64 live queries")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds to make a failing schedule smaller")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument(
        "--aggregations",
        action=argparse.BooleanOptionalAction,
        default=MULTIWAY.features.aggregations,
        help="also aggregations over one or two relations beside the joins",
    )
    parser.add_argument("--sessions", action="store_true", help="most queries have session windows")
    parser.add_argument("--aggregated", action="store_true", help="most queries aggregate what they join")
    parser.add_argument(
        "--plans",
        choices=("random", "own", "reference"),
        default="random",
        help="any valid plan, the plan the engine finds best, or no engine but the reference in plain Python",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
