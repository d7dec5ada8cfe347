"""The choice of a shared partitioning within size and time limits, never worse than hashing without sharing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from weft.planner.partitioning.compile import Compiled, compile_workload
from weft.planner.partitioning.ladder import climb
from weft.planner.partitioning.model import Solved
from weft.planner.partitioning.problem import (
    Placement,
    Problem,
    connected_items,
    cost_of,
    heaviest_cells,
    lower_bound,
    peaks,
    subproblem,
)
from weft.planner.partitioning.search import FULL_SEARCH, LOOKS_PER_SECOND, Stop, search
from weft.planner.partitioning.workload import (
    Attempt,
    Partitioning,
    PartitioningCost,
    PartitioningLimits,
    PartitioningWorkload,
    Rung,
    SharedRows,
)

Clock: TypeAlias = Callable[[], float]
"""A function like `time.monotonic`: seconds since an arbitrary moment."""

_IN_TIME = 0.8
"""The fraction of the time limit after which a search stops by the clock; explaining the result needs time, too."""
_PLACES_PER_SECOND = 40_000
"""Places of shared rows that are read per second of the time limit."""
_SECONDS_PER_PLACE = 4e-6
_SECONDS_PER_ITEM = 12e-6
"""The estimated time to compile and price one item, whatever the search does."""


def choose_partitioning(
    workload: PartitioningWorkload, limits: PartitioningLimits | None = None, *, clock: Clock | None = None
) -> Partitioning:
    """Return the best assignment found within the limits, with its cost, its lower bound and its alternatives.

    Degenerate statistics give a valid assignment, too. The result is deterministic unless the solver ran out of time or
    a clock is given. Without a clock, time is estimated from sizes, and a busy machine may exceed the limit.
    """
    began = clock() if clock else 0.0
    limits = limits or PartitioningLimits()
    reduced, missed_savings = _in_time(workload, limits.seconds)
    compiled = compile_workload(reduced)
    problem = compiled.problem
    hashed = compiled.hashed()
    current = compiled.placed(workload.current)
    known = [hashed] if current is None else [current, hashed]
    places = sum(len(shared.places) for shared in reduced.shared)
    overhead = problem.items * _SECONDS_PER_ITEM + places * _SECONDS_PER_PLACE
    remaining = replace(limits, seconds=max(0.0, limits.seconds - overhead))
    deadline = began + _IN_TIME * limits.seconds
    chosen, bound, attempts = _chosen(compiled, known, limits=remaining, clock=clock or _no_clock, end=deadline)
    chosen = _cheapest(problem, [*known, chosen])
    if current is not None:
        chosen = _in_place(problem, chosen, current)
    alternatives = [(Rung.HASHING, cost_of(problem, hashed))]
    if current is not None:
        alternatives.append((Rung.CURRENT, cost_of(problem, current)))
    cost = cost_of(problem, chosen)
    return Partitioning(
        routes=compiled.routes(chosen),
        cost=cost,
        bound=min(bound - missed_savings, cost.total),
        unshared=unshared_cost(compiled),
        alternatives=tuple(alternatives),
        attempts=attempts,
        moved=_moved(workload, compiled, chosen),
    )


def price_assignment(workload: PartitioningWorkload) -> PartitioningCost:
    """Return the cost of the current assignment for these queries, to estimate the effect of adding or dropping one."""
    compiled = compile_workload(workload)
    return cost_of(compiled.problem, compiled.placed(workload.current) or compiled.hashed())


def unshared_cost(compiled: Compiled) -> PartitioningCost:
    """Return the cost of hashing if each query sends its own copy of all rows that it reads."""
    problem, hashed = compiled.problem, compiled.hashed()
    latency = problem.latency
    sent = sum(sum(rows for _, rows in work) * latency[at] for work, at in zip(problem.work, hashed, strict=True))
    return PartitioningCost(sent, sum(peaks(problem, hashed).values()))


def _chosen(
    compiled: Compiled, known: Sequence[Placement], *, limits: PartitioningLimits, clock: Clock, end: float
) -> tuple[Placement, float, tuple[Attempt, ...]]:
    """Solve each set of connected streams separately (heuristic 1), in a time proportional to its size."""
    problem = compiled.problem
    placement = list(known[0])
    bound = 0.0
    attempts: list[Attempt] = []
    began, done = clock(), 0.0
    for items in connected_items(problem):
        part = subproblem(problem, items)
        done += part.size / max(1, problem.size)
        until = began + (end - began) * done
        part_limits = replace(limits, seconds=limits.seconds * part.size / max(1, problem.size))
        starts = [tuple(placed[item] for item in items) for placed in known]
        solved, part_attempts = _solve(part, starts, limits=part_limits, stop=partial(_is_over, clock, until))
        for item, partition in zip(items, solved.placement, strict=True):
            placement[item] = partition
        bound += solved.bound
        streams = tuple(compiled.streams[stream] for stream in part.streams)
        attempts.extend(replace(attempt, streams=streams) for attempt in part_attempts)
    return tuple(placement), bound, tuple(attempts)


def _no_clock() -> float:
    return 0.0


def _is_over(clock: Clock, until: float) -> bool:
    return clock() > until


def _solve(
    problem: Problem, starts: Sequence[Placement], *, limits: PartitioningLimits, stop: Stop
) -> tuple[Solved, list[Attempt]]:
    """Search as thoroughly as time allows, then climb the ladder in the remaining time."""
    looks = limits.seconds * LOOKS_PER_SECOND
    thin = heaviest_cells(problem, int(looks))
    passes = looks / max(1, thin.size)
    start = _cheapest(problem, [*starts, search(thin, starts=starts, passes=passes, stop=stop)])
    cost = cost_of(problem, start).total
    bound = min(lower_bound(problem), cost)
    attempts = [Attempt(Rung.SEARCH, (), cost, bound)]
    if passes <= FULL_SEARCH:
        return Solved(start, cost, bound), attempts
    remaining = replace(limits, seconds=limits.seconds * (1 - FULL_SEARCH / passes))
    solved, steps = climb(problem, start, limits=remaining, stop=stop)
    attempts.extend(Attempt(step.rung, (), step.cost, step.bound) for step in steps)
    return solved, attempts


def _in_time(workload: PartitioningWorkload, seconds: float) -> tuple[PartitioningWorkload, float]:
    """Return the workload with as many shared rows, largest first, as time allows, and what the others could save.

    The others count as unshared, so costs are never too low; the bound has to be lowered by what they could save.
    """
    places = sum(len(shared.places) for shared in workload.shared)
    limit = int(seconds * _PLACES_PER_SECOND)
    if places <= limit:
        return workload, 0.0
    by_stream: defaultdict[str, list[SharedRows]] = defaultdict(list)
    for shared in workload.shared:
        by_stream[shared.stream].append(shared)
    kept: list[SharedRows] = []
    missed_savings = 0.0
    for shared_rows in by_stream.values():
        room = limit * sum(len(shared.places) for shared in shared_rows) // places
        for shared in sorted(shared_rows, key=_largest, reverse=True):
            room -= len(shared.places)
            if room >= 0:
                kept.append(shared)
            else:
                missed_savings += sum(place.rows for place in shared.places if place.rows > 0) - _largest(shared)
    return replace(workload, shared=tuple(kept)), missed_savings * max(workload.latency, default=1.0)


def _largest(shared: SharedRows) -> float:
    return max((place.rows for place in shared.places if place.rows > 0), default=0.0)


def _cheapest(problem: Problem, placements: Sequence[Placement]) -> Placement:
    """Return the first cheapest placement. The placement in effect is listed first, so it wins ties."""
    return min(placements, key=lambda placement: cost_of(problem, placement).total)


def _in_place(problem: Problem, chosen: Placement, current: Placement) -> Placement:
    """Return the placement with partitions renamed so that most load stays in place, if they are interchangeable."""
    if not problem.interchangeable:
        return chosen
    load: defaultdict[tuple[int, int], float] = defaultdict(float)
    for item, (new, old) in enumerate(zip(chosen, current, strict=True)):
        load[new, old] += sum(rows for _, rows in problem.work[item])
    new_names: dict[int, int] = {}
    for new, old in sorted(load, key=lambda pair: (-load[pair], pair)):
        if new not in new_names and old not in new_names.values():
            new_names[new] = old
    free = [partition for partition in range(problem.partitions) if partition not in new_names.values()]
    for new in range(problem.partitions):
        if new not in new_names:
            new_names[new] = free.pop(0)
    return tuple(new_names[partition] for partition in chosen)


def _moved(workload: PartitioningWorkload, compiled: Compiled, chosen: Placement) -> int:
    moved = 0
    for route in compiled.routes(chosen):
        for input_ in route.inputs:
            before = workload.current.get(input_, ())
            moved += sum(old != new for old, new in zip(before, route.partition_of, strict=False))
    return moved
