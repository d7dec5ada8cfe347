"""The only interface to the HiGHS solver: a model is plain data, and every solution is checked in Python.

Time limit, gap, threads and seed are always set. HiGHS has twenty statuses; callers see `Optimal`, `Feasible` or
`NoAnswer`, and no solution is returned before its bounds, rows, integrality and cost are recomputed here. Each outcome
has the time spent by the solver's own clock, so that pure code can divide a time budget. The outcome depends only on
the model and the limits, unless the solver runs out of time.
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
"""The largest accepted distance of a value from a bound, a row's limit or an integer."""

_ROW_WISE = int(highspy.MatrixFormat.kRowwise.value)
_MINIMIZE = int(highspy.ObjSense.kMinimize.value)


@dataclass(frozen=True, slots=True)
class SolverLimits:
    """Limits of a solver run: it stops after `time`, or when a solution is proven to be within `gap` of the optimum."""

    time: timedelta = timedelta(seconds=10)
    gap: float = 0.0
    seed: int = 1
    threads: int = 2
    """The number of independent programs that are solved at the same time."""

    def __post_init__(self) -> None:
        if self.time < timedelta(0) or not self.gap >= 0:
            raise ValueError("a solver's time and gap must not be negative")


@dataclass(slots=True)
class Model:
    """A program that minimizes cost · x, where each column and each row has a lower and an upper limit.

    Rows are one compressed matrix, so that the whole model is passed to the solver in one call.
    """

    costs: list[float] = field(default_factory=list)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    integers: list[int] = field(default_factory=list)
    """1 for each column that must be an integer, else 0."""
    row_lows: list[float] = field(default_factory=list)
    row_highs: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add_column(self, cost: float, *, low: float = 0.0, high: float = 1.0, integer: bool = False) -> int:
        """Add a variable and return its number."""
        self.costs.append(cost)
        self.lows.append(low)
        self.highs.append(high)
        self.integers.append(1 if integer else 0)
        return len(self.costs) - 1

    def add_row(self, columns: Sequence[int], factors: Sequence[float], *, low: float, high: float) -> None:
        """Add the constraint low ≤ Σ factor · column ≤ high over distinct columns."""
        self.starts.append(len(self.columns))
        self.columns.extend(columns)
        self.factors.extend(factors)
        self.row_lows.append(low)
        self.row_highs.append(high)

    def cost(self, values: Sequence[float]) -> float:
        """Return the cost of these values, computed in Python."""
        return math.fsum(cost * value for cost, value in zip(self.costs, values, strict=True))

    def violation(self, values: Sequence[float]) -> str:
        """Describe the first limit that these values violate; return an empty string if they are valid."""
        for column, value in enumerate(values):
            if not self.lows[column] - TOLERANCE <= value <= self.highs[column] + TOLERANCE:
                return f"column {column} is {value}"
            if self.integers[column] and abs(value - round(value)) > TOLERANCE:
                return f"column {column} is {value}, not a whole number"
        ends = [*self.starts[1:], len(self.columns)]
        for row, (start, end) in enumerate(zip(self.starts, ends, strict=True)):
            factors = self.factors[start:end]
            total = sum(map(mul, factors, map(values.__getitem__, self.columns[start:end])))
            if self.row_lows[row] <= total <= self.row_highs[row]:
                continue
            tolerance = TOLERANCE * max(1.0, sum(map(abs, factors)))
            if not self.row_lows[row] - tolerance <= total <= self.row_highs[row] + tolerance:
                return f"row {row} is {total}"
        return ""


@dataclass(frozen=True, slots=True)
class Optimal:
    """A solution that is proven to be within the requested gap of the optimum."""

    values: tuple[float, ...]
    cost: float
    bound: float
    time: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Feasible:
    """The best solution at the time limit; no solution costs less than `bound`."""

    values: tuple[float, ...]
    cost: float
    bound: float
    time: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A run without a usable solution; no solution costs less than `bound`."""

    reason: str
    bound: float = -math.inf
    time: timedelta = timedelta(0)


Outcome = Optimal | Feasible | NoAnswer


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The optimum of the model without integrality: a lower bound of the cost, and the reduced cost of each column."""

    values: tuple[float, ...]
    cost: float
    reduced_costs: tuple[float, ...]
    time: timedelta = timedelta(0)


def gap_of(cost: float, bound: float) -> float:
    """Return the fraction of `cost` by which the optimum may be lower: 0 if proven optimal, 1 if nothing is known."""
    if cost <= bound or cost == 0:
        return 0.0
    return 1.0 if bound <= 0 else min(1.0, (cost - bound) / cost)


def solve(model: Model, limits: SolverLimits, *, first: Sequence[float] | None = None, effort: float = 0.05) -> Outcome:
    """Return the cheapest integer solution found within the limits, after checking it.

    `first` is a known solution to start from; `effort` is the share of work that HiGHS spends on its own heuristics.
    """
    if not model.costs:
        return Optimal((), 0.0, 0.0)
    solver = _load(model, limits)
    solver.setOptionValue("mip_heuristic_effort", effort)
    if first is not None:
        start = highspy.HighsSolution()
        start.col_value = list(first)
        solver.setSolution(start)
    solver.run()
    return _outcome(solver, model, limits)


def bound_each(
    models: Sequence[tuple[Model, Sequence[float]]], limits: SolverLimits
) -> tuple[tuple[float, ...], timedelta]:
    """Return a lower bound of the cost of each model, and the time spent; each model comes with a known solution.

    The models are divided among `limits.threads` threads. Each thread stays within the time limit.
    """
    threads = limits.threads

    def work(thread: int) -> tuple[list[float], timedelta]:
        remaining, bounds = limits.time, list[float]()
        for model, first in models[thread::threads]:
            outcome = solve(model, replace(limits, time=remaining), first=first)
            remaining = max(timedelta(0), remaining - outcome.time)
            bounds.append(outcome.bound)
        return bounds, limits.time - remaining

    with ThreadPoolExecutor(max_workers=threads) as pool:  # HiGHS releases the GIL
        results = list(pool.map(work, range(threads)))
    bounds = tuple(results[i % threads][0][i // threads] for i in range(len(models)))
    return bounds, max(time for _, time in results)


def relax(model: Model, limits: SolverLimits) -> Relaxation | NoAnswer:
    """Return the optimum of the linear relaxation, with its reduced costs."""
    if not model.costs:
        return Relaxation((), 0.0, ())
    solver = _load(model, limits, whole=False)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return NoAnswer(solver.modelStatusToString(solver.getModelStatus()), time=_time(solver))
    solution, cost = solver.getSolution(), solver.getInfo().objective_function_value
    return Relaxation(tuple(solution.col_value), cost, tuple(solution.col_dual), _time(solver))


def _load(model: Model, limits: SolverLimits, *, whole: bool = True) -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # the stub has no return type
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


def _outcome(solver: highspy.Highs, model: Model, limits: SolverLimits) -> Outcome:
    status = solver.getModelStatus()
    info = solver.getInfo()
    has_integers = any(model.integers)
    proven = status == highspy.HighsModelStatus.kOptimal
    bound = float(info.mip_dual_bound if has_integers else info.objective_function_value if proven else -math.inf)
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
