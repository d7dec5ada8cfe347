"""Shared partitioning, chosen: the rung that size and time allow, never worse than hashing without sharing."""

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
    bound_of,
    components,
    cost_of,
    heaviest_cells,
    part_of,
    peaks,
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
"""Seconds since any moment, as `time.monotonic` gives them."""

_IN_TIME = 0.8
"""The share of the time after which a search stops by the clock: explaining takes some, too."""
_PLACES_PER_SECOND = 40_000
"""Places of shared rows that are read per second of the budget."""
_SECONDS_PER_PLACE = 4e-6
_SECONDS_PER_ITEM = 12e-6
"""What compiling and pricing one item takes, whatever is done with it."""


def choose_partitioning(
    workload: PartitioningWorkload, limits: PartitioningLimits | None = None, *, clock: Clock | None = None
) -> Partitioning:
    """The best assignment found within the limits, with its price, its proof and its alternatives.

    Total: degenerate statistics give a valid assignment, too. Deterministic unless the solver ran out of time or a
    clock is given: without one, time is estimated from sizes, and a busy machine takes longer than it was given.
    """
    began = clock() if clock else 0.0
    limits = limits or PartitioningLimits()
    readable, missed = _in_time(workload, limits.seconds)
    compiled = compile_workload(readable)
    problem = compiled.problem
    hashed = compiled.hashed()
    current = compiled.placed(workload.current)
    known = [hashed] if current is None else [current, hashed]
    places = sum(len(shared.places) for shared in readable.shared)
    overhead = problem.items * _SECONDS_PER_ITEM + places * _SECONDS_PER_PLACE
    left = replace(limits, seconds=max(0.0, limits.seconds - overhead))
    end = began + _IN_TIME * limits.seconds
    chosen, bound, attempts = _chosen(compiled, known, limits=left, clock=clock or _no_clock, end=end)
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
        bound=min(bound - missed, cost.total),
        unshared=unshared_cost(compiled),
        alternatives=tuple(alternatives),
        attempts=attempts,
        moved=_moved(workload, compiled, chosen),
    )


def price_assignment(workload: PartitioningWorkload) -> PartitioningCost:
    """What the current assignment would cost these queries: the what-if of adding or dropping one."""
    compiled = compile_workload(workload)
    return cost_of(compiled.problem, compiled.placed(workload.current) or compiled.hashed())


def unshared_cost(compiled: Compiled) -> PartitioningCost:
    """What hashing costs if each query sends its own copy of everything it reads."""
    problem, hashed = compiled.problem, compiled.hashed()
    latency = problem.latency
    sent = sum(sum(rows for _, rows in work) * latency[at] for work, at in zip(problem.work, hashed, strict=True))
    return PartitioningCost(sent, sum(peaks(problem, hashed).values()))


def _chosen(
    compiled: Compiled, known: Sequence[Placement], *, limits: PartitioningLimits, clock: Clock, end: float
) -> tuple[Placement, float, tuple[Attempt, ...]]:
    """Each set of connected streams by itself (heuristic 1), with the share of the time its size deserves."""
    problem = compiled.problem
    placement = list(known[0])
    bound = 0.0
    attempts: list[Attempt] = []
    began, done = clock(), 0.0
    for items in components(problem):
        part = part_of(problem, items)
        done += part.size / max(1, problem.size)
        until = began + (end - began) * done
        share = replace(limits, seconds=limits.seconds * part.size / max(1, problem.size))
        starts = [tuple(each[item] for item in items) for each in known]
        solved, found = _solve(part, starts, limits=share, stop=partial(_is_over, clock, until))
        for item, at in zip(items, solved.placement, strict=True):
            placement[item] = at
        bound += solved.bound
        streams = tuple(compiled.streams[stream] for stream in part.streams)
        attempts.extend(replace(attempt, streams=streams) for attempt in found)
    return tuple(placement), bound, tuple(attempts)


def _no_clock() -> float:
    return 0.0


def _is_over(clock: Clock, until: float) -> bool:
    return clock() > until


def _solve(
    problem: Problem, starts: Sequence[Placement], *, limits: PartitioningLimits, stop: Stop
) -> tuple[Solved, list[Attempt]]:
    """A search, as thorough as there is time, then the ladder with what is left of it."""
    looks = limits.seconds * LOOKS_PER_SECOND
    thin = heaviest_cells(problem, int(looks))
    passes = looks / max(1, thin.size)
    start = _cheapest(problem, [*starts, search(thin, starts=starts, passes=passes, stop=stop)])
    cost = cost_of(problem, start).total
    bound = min(bound_of(problem), cost)
    attempts = [Attempt(Rung.SEARCH, (), cost, bound)]
    if passes <= FULL_SEARCH:
        return Solved(start, cost, bound), attempts
    left = replace(limits, seconds=limits.seconds * (1 - FULL_SEARCH / passes))
    solved, steps = climb(problem, start, limits=left, stop=stop)
    attempts.extend(Attempt(step.rung, (), step.cost, step.bound) for step in steps)
    return solved, attempts


def _in_time(workload: PartitioningWorkload, seconds: float) -> tuple[PartitioningWorkload, float]:
    """The workload with as many of its shared rows, most rows first, as can be looked at; what the others could save.

    Those count as unshared, so that a cost is at most too high; the bound has to be lowered by what they could save.
    """
    places = sum(len(shared.places) for shared in workload.shared)
    most = int(seconds * _PLACES_PER_SECOND)
    if places <= most:
        return workload, 0.0
    by_stream: defaultdict[str, list[SharedRows]] = defaultdict(list)
    for shared in workload.shared:
        by_stream[shared.stream].append(shared)
    kept: list[SharedRows] = []
    missed = 0.0
    for each in by_stream.values():
        room = most * sum(len(shared.places) for shared in each) // places
        for shared in sorted(each, key=_largest, reverse=True):
            room -= len(shared.places)
            if room >= 0:
                kept.append(shared)
            else:
                missed += sum(place.rows for place in shared.places if place.rows > 0) - _largest(shared)
    return replace(workload, shared=tuple(kept)), missed * max(workload.latency, default=1.0)


def _largest(shared: SharedRows) -> float:
    return max((place.rows for place in shared.places if place.rows > 0), default=0.0)


def _cheapest(problem: Problem, placements: Sequence[Placement]) -> Placement:
    """The first of the cheapest: of equals, what is in effect already."""
    return min(placements, key=lambda placement: cost_of(problem, placement).total)


def _in_place(problem: Problem, chosen: Placement, current: Placement) -> Placement:
    """The same assignment with partitions renamed so that most load stays where it is, if names do not matter."""
    if not problem.interchangeable:
        return chosen
    together: defaultdict[tuple[int, int], float] = defaultdict(float)
    for item, (new, old) in enumerate(zip(chosen, current, strict=True)):
        together[new, old] += sum(rows for _, rows in problem.work[item])
    names: dict[int, int] = {}
    for new, old in sorted(together, key=lambda pair: (-together[pair], pair)):
        if new not in names and old not in names.values():
            names[new] = old
    free = [at for at in range(problem.partitions) if at not in names.values()]
    for new in range(problem.partitions):
        if new not in names:
            names[new] = free.pop(0)
    return tuple(names[at] for at in chosen)


def _moved(workload: PartitioningWorkload, compiled: Compiled, chosen: Placement) -> int:
    moved = 0
    for route in compiled.routes(chosen):
        for each in route.inputs:
            before = workload.current.get(each, ())
            moved += sum(old != new for old, new in zip(before, route.partition_of, strict=False))
    return moved
