"""Eq. 1–10 as a mixed integer program. The cost of the solver's answer is computed again in Python.

Columns: x[item, partition] (eq. 1), y[cell, partition] for the maximum in eq. 4 and 5, z[stream] for the maximum in
eq. 9. Eq. 3 needs no rows: inputs that are placed alike are one item.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from weft.planner.highs import INFINITY, Feasible, Model, NoAnswer, Optimal, SolverLimits, solve
from weft.planner.partitioning.problem import Placement, Problem, cost_of, least_peaks, lower_bound, peaks

_SCALE = 1000.0
"""The cost of the start in the solver's units: its tolerances then mean the same for small and large loads."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A placement, its cost, and a lower bound of the cost of any placement."""

    placement: Placement
    cost: float
    bound: float


def model_size(problem: Problem) -> int:
    """Return the number of nonzeros of the model, which decides the solver's time, without building the model."""
    members = sum(map(len, problem.cells))
    work = sum(map(len, problem.work))
    return problem.partitions * (problem.items + 2 * members + work)


def solve_exactly(problem: Problem, start: Placement, *, seconds: float, gap: float, seed: int) -> Solved:
    """Return the cheapest placement found, never worse than the start, and optimal up to the gap if time suffices."""
    cost = cost_of(problem, start).total
    bound = lower_bound(problem)
    if problem.items == 0 or cost <= bound or seconds <= 0:
        return Solved(start, cost, min(bound, cost))
    unit = _SCALE / cost
    order = _heaviest_first(problem)
    model, first = _build(problem, order, start=_renamed(problem, order, start), unit=unit)
    outcome = solve(model, SolverLimits(timedelta(seconds=seconds), gap, seed), first=first)
    match outcome:
        case Optimal(values=values) | Feasible(values=values):
            placement = _decode(problem, values)
            new_cost = cost_of(problem, placement).total
            proven = max(bound, outcome.bound / unit)
            if new_cost < cost:
                return Solved(placement, new_cost, min(proven, new_cost))
            return Solved(start, cost, min(proven, cost))
        case NoAnswer():
            return Solved(start, cost, min(max(bound, outcome.bound / unit), cost))
        case _:
            assert_never(outcome)


def _build(problem: Problem, order: Sequence[int], *, start: Placement, unit: float) -> tuple[Model, list[float]]:
    """Return the model, and the start as values of its columns."""
    model = Model()
    offered = [0.0] * problem.items
    for cell in problem.cells:
        for item, rows in cell:
            offered[item] += rows
    rank = {item: position for position, item in enumerate(order)}
    first: list[float] = []
    for item in range(problem.items):
        # Interchangeable partitions make solutions symmetric; to break this, the k-th item uses one of the first k + 1.
        usable = rank[item] + 1 if problem.interchangeable else problem.partitions
        for partition, latency in enumerate(problem.latency):
            cost = unit * latency * (problem.send[item] - offered[item])
            model.add_column(cost, high=1.0 if partition < usable else 0.0, integer=True)
            first.append(1.0 if partition == start[item] else 0.0)
        columns = range(item * problem.partitions, (item + 1) * problem.partitions)
        model.add_row(columns, [1.0] * len(columns), low=1.0, high=1.0)
    _add_cells(model, problem, unit=unit, first=first)
    _add_peaks(model, problem, start=start, unit=unit, first=first)
    return model, first


def _add_cells(model: Model, problem: Problem, *, unit: float, first: list[float]) -> None:
    """Add eq. 4 and 5: a cell sends at least as many rows to a partition as each of its members there offers."""
    for cell in problem.cells:
        largest = max(rows for _, rows in cell)
        for partition, latency in enumerate(problem.latency):
            column = model.add_column(unit * latency * largest)
            members = [(item * problem.partitions + partition, rows / largest) for item, rows in cell]
            first.append(max(share * first[member] for member, share in members))
            for member, share in members:
                model.add_row((column, member), (1.0, -share), low=0.0, high=INFINITY)


def _add_peaks(model: Model, problem: Problem, *, start: Placement, unit: float, first: list[float]) -> None:
    """Add the second part of eq. 9: the peak of a stream is at least the load of each partition."""
    lower_bounds = least_peaks(problem)
    highest = peaks(problem, start)
    loads: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for item, work in enumerate(problem.work):
        for stream, rows in work:
            if rows > 0:
                loads[stream].append((item, rows))
    for stream, items in loads.items():
        column = model.add_column(1.0, low=unit * lower_bounds[stream], high=INFINITY)
        first.append(unit * highest[stream])
        for partition, pressure in enumerate(problem.pressure):
            columns = [column, *(item * problem.partitions + partition for item, _ in items)]
            factors = [1.0, *(-unit * pressure * rows for _, rows in items)]
            model.add_row(columns, factors, low=0.0, high=INFINITY)


def _decode(problem: Problem, values: Sequence[float]) -> Placement:
    step = problem.partitions
    return tuple(
        max(range(step), key=lambda partition, base=item * step: values[base + partition])  # type: ignore[misc]
        for item in range(problem.items)
    )


def _heaviest_first(problem: Problem) -> list[int]:
    return sorted(range(problem.items), key=lambda item: (-problem.send[item], item))


def _renamed(problem: Problem, order: Sequence[int], start: Placement) -> Placement:
    """Return the start with partitions renumbered by first use in `order`, if they are interchangeable."""
    if not problem.interchangeable:
        return start
    names: dict[int, int] = {}
    for item in order:
        names.setdefault(start[item], len(names))
    return tuple(names[partition] for partition in start)
