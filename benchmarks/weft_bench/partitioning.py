"""SASPAR's fig. 8, reproduced: `weft-bench partitioning`.

Time and accuracy of the exact program, of each rung of the ladder and of the automatic choice, over growing sizes.
Accuracy is the best known cost over the cost found, as in fig. 8b; where the exact program did not finish, the best
known cost is that of the best answer of all, and the proven gap says what that is worth.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from weft.planner.partitioning.choose import choose_partitioning, unshared_cost
from weft.planner.partitioning.compile import compile_workload
from weft.planner.partitioning.ladder import Effort, run_rung
from weft.planner.partitioning.model import Solved, model_size, solve_exactly
from weft.planner.partitioning.problem import Problem, cost_of, lower_bound
from weft.planner.partitioning.search import search
from weft.planner.partitioning.sharing_counts import count_loads, count_shared_rows
from weft.planner.partitioning.workload import (
    LADDER,
    PartitionedInput,
    PartitionedQuery,
    PartitioningLimits,
    PartitioningWorkload,
    Rung,
    SharedRows,
    relative_gap,
)

BAR_SECONDS = 4.0
"""SASPAR gives its optimizer so long; 500 queries, 64 partitions and 256 key groups must have an answer by then."""
AUTO, EXACT = "auto", "exact"
_LARGEST_EXACT = 600_000
"""Nonzeros beyond which the exact program is not tried: building it would take longer than most answers."""
_ROWS = 4000
_ALIKE = 0.8
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Size:
    """A workload of fig. 8: queries, partitions, key groups."""

    queries: int
    partitions: int
    key_groups: int

    def __str__(self) -> str:
        return f"{self.queries}q {self.partitions}p {self.key_groups}g"


QUICK = (Size(2, 2, 4), Size(2, 2, 8))
FIGURE = (
    Size(2, 2, 8),
    Size(2, 2, 32),
    Size(2, 4, 32),
    Size(4, 4, 32),
    Size(4, 4, 64),
    Size(4, 8, 64),
    Size(4, 16, 64),
    Size(8, 16, 64),
    Size(16, 32, 128),
    Size(100, 64, 256),
    Size(500, 64, 256),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """How long one way of optimizing took, what it found and what it proved."""

    way: str
    seconds: float
    cost: float
    bound: float


@dataclass(frozen=True, slots=True)
class Line:
    """All ways at one size."""

    size: str
    unshared: float
    hashing: float
    measured: tuple[Measured, ...]

    @property
    def best(self) -> float:
        """The lowest cost known."""
        return min(each.cost for each in self.measured)

    @property
    def bound(self) -> float:
        """The highest bound proven."""
        return max(each.bound for each in self.measured)

    def accuracy(self, way: str) -> float | None:
        """Fig. 8b: 1 is the best known."""
        found = self.of(way)
        return None if found is None else self.best / found.cost

    def of(self, way: str) -> Measured | None:
        """What a way measured, if it was tried."""
        return next((each for each in self.measured if each.way == way), None)


def make_workload(size: Size, *, seed: int = 0) -> PartitioningWorkload:
    """Queries over streams whose attributes often, but not always, tell rows apart in the same way; keys are skewed."""
    random = Random(seed)
    streams = 1 if size.queries <= 16 else 4
    attributes = min(size.queries, 8)
    loads: dict[PartitionedInput, tuple[float, ...]] = {}
    shared: list[SharedRows] = []
    for number in range(streams):
        name = f"stream{number}"
        twins = [[random.randrange(size.key_groups) for _ in range(size.key_groups)] for _ in range(attributes)]
        rows = [_row(random, twins, size.key_groups) for _ in range(_ROWS)]
        loads |= count_loads(name, rows, size.key_groups)
        shared.extend(count_shared_rows(name, rows))
    queries = tuple(
        PartitionedQuery(f"q{at}", ((PartitionedInput(f"stream{at % streams}", f"a{at // streams % attributes}"),),))
        for at in range(size.queries)
    )
    return PartitioningWorkload(queries, size.partitions, size.key_groups, loads=loads, shared=tuple(shared))


def _row(random: Random, twins: Sequence[Sequence[int]], groups: int) -> dict[str, int]:
    key = int(random.paretovariate(0.6)) % groups
    return {
        f"a{at}": twin[key] if random.random() < _ALIKE else random.randrange(groups) for at, twin in enumerate(twins)
    }


def measure(size: Size, *, exact_seconds: float, seed: int = 0) -> Line:
    """Every way of optimizing at one size, each from nothing, one after the other."""
    workload = make_workload(size, seed=seed)
    compiled = compile_workload(workload)
    problem = compiled.problem
    measured = [_measure_auto(workload, seed=seed), _measured(Rung.SEARCH, problem, lambda: _searched(problem))]
    if model_size(problem) <= _LARGEST_EXACT:
        limits = {"seconds": exact_seconds, "gap": 0.0}
        exact = _measured(EXACT, problem, lambda: solve_exactly(problem, search(problem), seed=seed, **limits))
        measured.append(exact)
    hashed = compiled.hashed()
    start = Solved(hashed, cost_of(problem, hashed).total, lower_bound(problem))
    for rung in LADDER[1:]:
        effort = Effort(BAR_SECONDS, 0.01, seed)
        began = time.perf_counter()
        found = run_rung(rung, problem, start, effort=effort)
        if found is not None:
            measured.append(Measured(rung, time.perf_counter() - began, found.cost, found.bound))
    return Line(str(size), unshared_cost(compiled).total, start.cost, tuple(measured))


def _measure_auto(workload: PartitioningWorkload, *, seed: int) -> Measured:
    began = time.perf_counter()
    limits = PartitioningLimits(seconds=BAR_SECONDS, seed=seed)
    chosen = choose_partitioning(workload, limits, clock=time.perf_counter)
    return Measured(AUTO, time.perf_counter() - began, chosen.cost.total, chosen.bound)


def _measured(way: str, problem: Problem, solve: Callable[[], Solved]) -> Measured:
    began = time.perf_counter()
    found = solve()
    return Measured(way, time.perf_counter() - began, cost_of(problem, found.placement).total, found.bound)


def _searched(problem: Problem) -> Solved:
    placement = search(problem)
    return Solved(placement, cost_of(problem, placement).total, lower_bound(problem))


WAYS = (EXACT, AUTO, Rung.SEARCH.value, *(rung.value for rung in LADDER[1:]))


def tables(lines: Sequence[Line]) -> tuple[Table, Table]:
    """Fig. 8a, seconds, and fig. 8b, accuracy, one row per size."""
    seconds = Table(title="fig. 8a: seconds", title_justify="left")
    accuracy = Table(title="fig. 8b: accuracy (best known cost / cost)", title_justify="left")
    for table in (seconds, accuracy):
        table.add_column("size")
        for way in WAYS:
            table.add_column(way, justify="right")
    accuracy.add_column("proven", justify="right")
    accuracy.add_column("saved", justify="right")
    for line in lines:
        found = [line.of(way) for way in WAYS]
        seconds.add_row(line.size, *(f"{each.seconds:.2f}" if each else "–" for each in found))
        shares = [line.accuracy(way) for way in WAYS]
        accuracy.add_row(
            line.size,
            *(f"{share:.1%}" if share is not None else "–" for share in shares),
            f"≥ {1 - relative_gap(line.best, line.bound):.1%}",
            f"{1 - line.best / line.unshared:.1%}" if line.unshared else "–",
        )
    return seconds, accuracy


def draw(lines: Sequence[Line], path: Path) -> None:
    """Both figures as one picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5))
    sizes = [line.size for line in lines]
    for way in WAYS:
        found = [(line.size, each, line.best / each.cost) for line in lines if (each := line.of(way)) is not None]
        names = [sizes.index(size) for size, _, _ in found]
        left.plot(names, [each.seconds for _, each, _ in found], marker="o", label=way)
        right.plot(names, [100 * share for _, _, share in found], marker="o", label=way)
    left.axhline(BAR_SECONDS, color="grey", linestyle=":", label="time budget")
    left.set_yscale("log")
    left.set_ylabel("seconds")
    right.set_ylabel("accuracy, % of the best known")
    for axes in (left, right):
        axes.set_xticks(range(len(sizes)), sizes, rotation=45, ha="right")
        axes.grid(visible=True, alpha=0.3)
    left.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def met_bars(lines: Sequence[Line]) -> list[tuple[str, bool]]:
    """The bars, and whether they were met: an answer in time, and none worse than unshared hashing."""
    autos = [(line, each) for line in lines if (each := line.of(AUTO)) is not None]
    return [
        (f"auto answers within {BAR_SECONDS:g} s", all(each.seconds <= BAR_SECONDS for _, each in autos)),
        ("auto is never worse than unshared hashing", all(each.cost <= line.unshared for line, each in autos)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints both tables, writes JSON and PNG; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="weft-bench partitioning", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small sizes only")
    parser.add_argument("--exact-seconds", type=float, default=60.0, help="time limit of the exact program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="where JSON and PNG go")
    asked = parser.parse_args(arguments)
    console = Console(width=_WIDTH)
    lines = []
    for size in QUICK if asked.quick else FIGURE:
        console.print(f"measuring {size}")
        lines.append(measure(size, exact_seconds=asked.exact_seconds, seed=asked.seed))
    for table in tables(lines):
        console.print(table)
    asked.out.mkdir(parents=True, exist_ok=True)
    bars = met_bars(lines)
    report = {"lines": [asdict(line) for line in lines], "bars": dict(bars)}
    (asked.out / "partitioning.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    draw(lines, asked.out / "partitioning.png")
    for bar, met in bars:
        console.print(f"{'met   ' if met else 'MISSED'} {bar}")
    return 0 if all(met for _, met in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
