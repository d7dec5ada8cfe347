"""Eq. 1–10 as a mixed integer program, and its answer as a placement whose cost was computed again in Python.

Columns: x[item, partition] (eq. 1), y[cell, partition] for the max of eq. 4 and 5, z[stream] for that of eq. 9.
Eq. 3 needs no rows: inputs that are placed alike are one item.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from weft.planner.highs import INFINITY, Feasible, Limits, Model, NoAnswer, Optimal, solve
from weft.planner.partitioning.problem import Placement, Problem, bound_of, cost_of, least_peaks, peaks

_SCALE = 1000.0
"""What the start costs in the solver's units, so that its tolerances mean the same for small and large loads."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A placement, its cost, and a cost no placement is below."""

    placement: Placement
    cost: float
    bound: float


def model_size(problem: Problem) -> int:
    """Nonzeros of the model: what decides how long the solver takes, computed without building it."""
    members = sum(map(len, problem.cells))
    work = sum(map(len, problem.work))
    return problem.partitions * (problem.items + 2 * members + work)


def solve_exactly(problem: Problem, start: Placement, *, seconds: float, gap: float, seed: int) -> Solved:
    """The cheapest placement found in the time, never worse than the start; optimal up to the gap if time sufficed."""
    cost = cost_of(problem, start).total
    bound = bound_of(problem)
    if problem.items == 0 or cost <= bound or seconds <= 0:
        return Solved(start, cost, min(bound, cost))
    unit = _SCALE / cost
    order = _heaviest_first(problem)
    model, first = _build(problem, order, start=_renamed(problem, order, start), unit=unit)
    outcome = solve(model, Limits(timedelta(seconds=seconds), gap, seed), first=first)
    match outcome:
        case Optimal(values=values) | Feasible(values=values):
            placement = _decode(problem, values)
            found = cost_of(problem, placement).total
            proven = max(bound, outcome.bound / unit)
            if found < cost:
                return Solved(placement, found, min(proven, found))
            return Solved(start, cost, min(proven, cost))
        case NoAnswer():
            return Solved(start, cost, min(max(bound, outcome.bound / unit), cost))
        case _:
            assert_never(outcome)


def _build(problem: Problem, order: Sequence[int], *, start: Placement, unit: float) -> tuple[Model, list[float]]:
    """The model and the start as values of its columns."""
    model = Model()
    offered = [0.0] * problem.items
    for cell in problem.cells:
        for item, rows in cell:
            offered[item] += rows
    rank = {item: at for at, item in enumerate(order)}
    first: list[float] = []
    for item in range(problem.items):
        # Partitions that do not differ have no names: the k-th item uses one of the first k + 1.
        usable = rank[item] + 1 if problem.interchangeable else problem.partitions
        for at, latency in enumerate(problem.latency):
            cost = unit * latency * (problem.send[item] - offered[item])
            model.add_column(cost, high=1.0 if at < usable else 0.0, integer=True)
            first.append(1.0 if at == start[item] else 0.0)
        columns = range(item * problem.partitions, (item + 1) * problem.partitions)
        model.add_row(columns, [1.0] * len(columns), low=1.0, high=1.0)
    _add_cells(model, problem, unit=unit, first=first)
    _add_peaks(model, problem, start=start, unit=unit, first=first)
    return model, first


def _add_cells(model: Model, problem: Problem, *, unit: float, first: list[float]) -> None:
    """Eq. 4 and 5: what a cell sends to a partition is at least what each of its members there offers."""
    for cell in problem.cells:
        most = max(rows for _, rows in cell)
        for at, latency in enumerate(problem.latency):
            column = model.add_column(unit * latency * most)
            members = [(item * problem.partitions + at, rows / most) for item, rows in cell]
            first.append(max(share * first[member] for member, share in members))
            for member, share in members:
                model.add_row((column, member), (1.0, -share), low=0.0, high=INFINITY)


def _add_peaks(model: Model, problem: Problem, *, start: Placement, unit: float, first: list[float]) -> None:
    """Eq. 9's second part: a stream's peak is at least the load of each partition."""
    least = least_peaks(problem)
    highest = peaks(problem, start)
    loads: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for item, work in enumerate(problem.work):
        for stream, rows in work:
            if rows > 0:
                loads[stream].append((item, rows))
    for stream, items in loads.items():
        column = model.add_column(1.0, low=unit * least[stream], high=INFINITY)
        first.append(unit * highest[stream])
        for at, pressure in enumerate(problem.pressure):
            columns = [column, *(item * problem.partitions + at for item, _ in items)]
            factors = [1.0, *(-unit * pressure * rows for _, rows in items)]
            model.add_row(columns, factors, low=0.0, high=INFINITY)


def _decode(problem: Problem, values: Sequence[float]) -> Placement:
    step = problem.partitions
    return tuple(
        max(range(step), key=lambda at, base=item * step: values[base + at])  # type: ignore[misc]
        for item in range(problem.items)
    )


def _heaviest_first(problem: Problem) -> list[int]:
    return sorted(range(problem.items), key=lambda item: (-problem.send[item], item))


def _renamed(problem: Problem, order: Sequence[int], start: Placement) -> Placement:
    """The start with partitions named in the order in which the items meet them, if names do not matter."""
    if not problem.interchangeable:
        return start
    names: dict[int, int] = {}
    for item in order:
        names.setdefault(start[item], len(names))
    return tuple(names[at] for at in start)
