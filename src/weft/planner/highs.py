"""The one door to the HiGHS solver: a model is data, an answer is one of three outcomes and was checked in Python.

Time limit, gap, threads and seed are always set. HiGHS has twenty statuses; callers see `Optimal`, `Feasible` or
`NoAnswer`, and none of them is believed before bounds, rows, integrality and cost were recomputed here. Each says how
much time it took by the solver's own clock, so that pure code can share out a budget. An answer depends on nothing
but the model and the limits, unless the time was up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from operator import mul

import highspy

INFINITY = math.inf
TOLERANCE = 1e-6
"""How far a value may be from a bound, a row's limit or a whole number."""

_ROW_WISE = int(highspy.MatrixFormat.kRowwise.value)
_MINIMIZE = int(highspy.ObjSense.kMinimize.value)


@dataclass(frozen=True, slots=True)
class Limits:
    """When the solver has to stop: after `time`, or once the answer is proven to be within `gap` of the best."""

    time: timedelta = timedelta(seconds=10)
    gap: float = 0.0
    seed: int = 1
    threads: int = 2
    """How many programs that do not depend on each other are solved at the same time."""

    def __post_init__(self) -> None:
        if self.time < timedelta(0) or not self.gap >= 0:
            raise ValueError("a solver's time and gap must not be negative")


@dataclass(slots=True)
class Model:
    """Minimize cost · x where each column and each row has a lower and an upper limit; grown column by column.

    Rows are kept as one compressed matrix, so that the whole model goes to the solver in one call.
    """

    costs: list[float] = field(default_factory=list)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    integers: list[int] = field(default_factory=list)
    """1 where a column must be a whole number, else 0."""
    row_lows: list[float] = field(default_factory=list)
    row_highs: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add_column(self, cost: float, *, low: float = 0.0, high: float = 1.0, integer: bool = False) -> int:
        """A new variable; its number."""
        self.costs.append(cost)
        self.lows.append(low)
        self.highs.append(high)
        self.integers.append(1 if integer else 0)
        return len(self.costs) - 1

    def add_row(self, columns: Sequence[int], factors: Sequence[float], *, low: float, high: float) -> None:
        """low ≤ Σ factor · column ≤ high; no column may be named twice."""
        self.starts.append(len(self.columns))
        self.columns.extend(columns)
        self.factors.extend(factors)
        self.row_lows.append(low)
        self.row_highs.append(high)

    def cost(self, values: Sequence[float]) -> float:
        """What these values cost, in plain Python."""
        return math.fsum(cost * value for cost, value in zip(self.costs, values, strict=True))

    def violation(self, values: Sequence[float]) -> str:
        """The first limit that these values break, or nothing."""
        for at, value in enumerate(values):
            if not self.lows[at] - TOLERANCE <= value <= self.highs[at] + TOLERANCE:
                return f"column {at} is {value}"
            if self.integers[at] and abs(value - round(value)) > TOLERANCE:
                return f"column {at} is {value}, not a whole number"
        ends = [*self.starts[1:], len(self.columns)]
        for row, (start, end) in enumerate(zip(self.starts, ends, strict=True)):
            factors = self.factors[start:end]
            total = sum(map(mul, factors, map(values.__getitem__, self.columns[start:end])))
            if self.row_lows[row] <= total <= self.row_highs[row]:
                continue
            room = TOLERANCE * max(1.0, sum(map(abs, factors)))
            if not self.row_lows[row] - room <= total <= self.row_highs[row] + room:
                return f"row {row} is {total}"
        return ""


@dataclass(frozen=True, slots=True)
class Optimal:
    """Nothing is better by more than the gap that was asked for."""

    values: tuple[float, ...]
    cost: float
    bound: float
    time: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Feasible:
    """The time was up: an answer, and how low the cost could be at most."""

    values: tuple[float, ...]
    cost: float
    bound: float
    time: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No usable values; `bound` still holds for any that exist."""

    reason: str
    bound: float = -math.inf
    time: timedelta = timedelta(0)


Outcome = Optimal | Feasible | NoAnswer


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The optimum of the model without its integrality: a lower bound of the cost, and what each column would add."""

    values: tuple[float, ...]
    cost: float
    reduced_costs: tuple[float, ...]
    time: timedelta = timedelta(0)


def gap_of(cost: float, bound: float) -> float:
    """By which fraction of `cost` the best possible could be lower; 0 when proven, 1 when nothing is known."""
    if cost <= bound or cost == 0:
        return 0.0
    return 1.0 if bound <= 0 else min(1.0, (cost - bound) / cost)


def solve(model: Model, limits: Limits, *, first: Sequence[float] | None = None, effort: float = 0.05) -> Outcome:
    """The cheapest whole-numbered values found within the limits, checked.

    `first` is a known answer to start from; `effort` is the share of work HiGHS spends on heuristics of its own.
    """
    if not model.costs:
        return Optimal((), 0.0, 0.0)
    solver = _load(model, limits)
    solver.setOptionValue("mip_heuristic_effort", effort)
    if first is not None:
        known = highspy.HighsSolution()
        known.col_value = list(first)
        solver.setSolution(known)
    solver.run()
    return _outcome(solver, model, limits)


def bound_each(models: Sequence[tuple[Model, Sequence[float]]], limits: Limits) -> tuple[tuple[float, ...], timedelta]:
    """For each model, from an answer of it that is known, a cost that no answer is below; and the time for all.

    Models are independent, so they are solved at the same time, some on each thread; all end within the limits.
    """
    cores = limits.threads

    def work(core: int) -> tuple[list[float], timedelta]:
        left, bounds = limits.time, list[float]()
        for model, first in models[core::cores]:
            outcome = solve(model, replace(limits, time=left), first=first)
            left = max(timedelta(0), left - outcome.time)
            bounds.append(outcome.bound)
        return bounds, limits.time - left

    with ThreadPoolExecutor(max_workers=cores) as pool:  # HiGHS lets other threads run
        done = list(pool.map(work, range(cores)))
    bounds = tuple(done[at % cores][0][at // cores] for at in range(len(models)))
    return bounds, max(time for _, time in done)


def relax(model: Model, limits: Limits) -> Relaxation | NoAnswer:
    """The linear relaxation with its reduced costs."""
    if not model.costs:
        return Relaxation((), 0.0, ())
    solver = _load(model, limits, whole=False)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return NoAnswer(solver.modelStatusToString(solver.getModelStatus()), time=_time(solver))
    solution, cost = solver.getSolution(), solver.getInfo().objective_function_value
    return Relaxation(tuple(solution.col_value), cost, tuple(solution.col_dual), _time(solver))


def _load(model: Model, limits: Limits, *, whole: bool = True) -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # its stub names no return type
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", limits.seed),
        ("time_limit", limits.time.total_seconds()),
        ("mip_rel_gap", limits.gap),
        ("mip_abs_gap", 0.0),
    ):
        solver.setOptionValue(name, value)
    integers = model.integers if whole else [0] * len(model.costs)
    solver.passModel(
        len(model.costs), len(model.row_lows), len(model.columns), _ROW_WISE, _MINIMIZE, 0.0,
        model.costs, model.lows, model.highs, model.row_lows, model.row_highs,
        model.starts, model.columns, model.factors, integers,
    )  # fmt: skip
    return solver


def _outcome(solver: highspy.Highs, model: Model, limits: Limits) -> Outcome:
    status = solver.getModelStatus()
    info = solver.getInfo()
    whole = any(model.integers)
    proven = status == highspy.HighsModelStatus.kOptimal
    bound = float(info.mip_dual_bound if whole else info.objective_function_value if proven else -math.inf)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible.value:
        return NoAnswer(solver.modelStatusToString(status), bound, _time(solver))
    values = tuple(
        float(round(value)) if integer else value
        for value, integer in zip(solver.getSolution().col_value, model.integers, strict=True)
    )
    if broken := model.violation(values):
        return NoAnswer(f"the solver's answer is wrong: {broken}", bound, _time(solver))
    cost = model.cost(values)
    if proven or gap_of(cost, bound) <= limits.gap:
        return Optimal(values, cost, min(bound, cost), _time(solver))
    return Feasible(values, cost, min(bound, cost), _time(solver))


def _time(solver: highspy.Highs) -> timedelta:
    return timedelta(seconds=solver.getRunTime())
