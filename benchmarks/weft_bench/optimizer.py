"""CLASH's fig. 9, then SASPAR's fig. 8 (`weft-bench partitioning`), reproduced: `weft-bench optimizer`.

As in CLASH VII-C, relations have three attributes, the same arrival rate and a selectivity of 1/rate for each join;
each attribute can be joined with one of another relation, queries are random connected parts of that graph, and exact
duplicates are left out. Measured are the probe cost of all queries together against each planned alone, the size of
the program, and the time from queries to a checked plan. Every figure is the median over several random environments.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import median

from rich.console import Console
from rich.table import Table

from weft.plan.changelog import QueryId
from weft.planner.highs import SolverLimits
from weft.planner.joins.graph import Attribute, JoinInput, JoinQuery, Predicate, predicate_of
from weft.planner.joins.order_plan import Method, ProbePlan
from weft.planner.joins.orders import add_queries, plan_alone, plan_probe_orders
from weft.planner.joins.program.model import build_model
from weft.planner.joins.statistics import CostModel, Statistics
from weft_bench import partitioning

RATE = 100.0
ATTRIBUTES = 3
BAR_SECONDS, BAR_SAVED, BAR_ADDING = 0.15, 0.45, 0.020
_ADDED = 20
"""Queries added one after the other to a plan of many."""
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Case:
    """One point of fig. 9: how many queries of which size over how many relations, and how exact the plan must be."""

    relations: int
    queries: int
    size: int
    gap: float = 0.0
    seconds: float = 10.0

    def __str__(self) -> str:
        return f"{self.queries} × {self.size}-way over {self.relations}"


COUNTS = (10, 25, 50, 75, 100)
FIGURE_A = tuple(Case(10, count, 3) for count in COUNTS)
FIGURE_C = tuple(Case(100, count, 3) for count in COUNTS)
FIGURE_F = tuple(
    Case(relations, count, size, gap, seconds)
    for relations in (10, 100)
    for size, count, gap, seconds in (
        (4, 10, 0.0, 10.0),
        (4, 20, 0.0, 10.0),
        (4, 30, 0.0, 10.0),
        (5, 10, 0.01, 1.7),
        (5, 20, 0.02, 8.0),
        (5, 30, 0.02, 8.0),
    )
)
QUICK = (Case(10, 10, 3), Case(10, 4, 4, 0.01, 1.0))


@dataclass(frozen=True, slots=True)
class Line:
    """A case over all environments: medians, and the worst of what has a bar."""

    case: Case
    alone: float
    """Probe cost of each query planned alone, added up."""
    together: float
    saved: float
    columns: int
    edges: int
    seconds: float
    slowest: float
    cpu_seconds: float
    gap: float
    """The largest."""
    greedy: float
    """Cost of the greedy plan over the plan's."""
    subplans: float
    """Cost by dynamic programming over shared subplans over the plan's."""


@dataclass(frozen=True, slots=True)
class Adding:
    """One query more in a plan of many: how long that takes, and how far from planning everything again it ends."""

    case: Case
    seconds: float
    slowest: float
    cost: float
    """Of the plan after all additions, over that of planning everything again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar and whether it was met."""

    what: str
    measured: float
    bar: float

    @property
    def met(self) -> bool:
        """Bars of savings are from below, all others from above."""
        return self.measured >= self.bar if self.what.startswith("saved") else self.measured <= self.bar


def environment(relations: int, seed: int) -> tuple[tuple[Predicate, ...], Statistics]:
    """Relations whose attributes can each be joined with one attribute of another relation."""
    random = Random(seed)
    inputs = [JoinInput(f"r{at:03}") for at in range(relations)]
    found = {
        predicate_of(
            Attribute(one, f"a{number}"),
            Attribute(random.choice([each for each in inputs if each != one]), f"a{random.randrange(ATTRIBUTES)}"),
        )
        for one in inputs
        for number in range(ATTRIBUTES)
    }
    predicates = tuple(sorted(found, key=lambda each: each.text))
    return predicates, Statistics(
        rates=dict.fromkeys(inputs, RATE), selectivities=dict.fromkeys(predicates, 1 / RATE)
    )  # fmt: skip


def make_queries(case: Case, predicates: Sequence[Predicate], seed: int) -> tuple[JoinQuery, ...]:
    """Distinct random connected queries."""
    random = Random(seed + 1000)
    inputs = sorted({side.input for each in predicates for side in (each.left, each.right)}, key=lambda each: each.text)
    found: dict[frozenset[Predicate], JoinQuery] = {}
    while len(found) < case.queries:
        joined, chosen = {random.choice(inputs)}, list[Predicate]()
        while len(joined) < case.size:
            more = [each for each in predicates if (each.left.input in joined) != (each.right.input in joined)]
            if not more:
                break
            chosen.append(random.choice(more))
            joined |= {chosen[-1].left.input, chosen[-1].right.input}
        if len(joined) == case.size and frozenset(chosen) not in found:
            ordered = tuple(sorted(joined, key=lambda each: each.text))
            found[frozenset(chosen)] = JoinQuery(QueryId(f"q{len(found)}"), ordered, tuple(chosen))
    return tuple(found.values())


def measure(case: Case, *, rounds: int) -> Line:
    """The case in `rounds` environments."""
    return _summary(case, [_round(case, seed) for seed in range(1, rounds + 1)])


@dataclass(frozen=True, slots=True)
class _Round:
    alone: float
    plan: ProbePlan
    columns: int
    seconds: float
    cpu_seconds: float
    greedy: float
    subplans: float


def _round(case: Case, seed: int) -> _Round:
    predicates, statistics = environment(case.relations, seed)
    queries = make_queries(case, predicates, seed)
    limits = SolverLimits(time=timedelta(seconds=case.seconds), gap=case.gap, seed=seed)
    began, cpu = time.perf_counter(), time.process_time()
    plan = plan_probe_orders(queries, statistics, limits=limits, method=Method.ILP)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    fallbacks = [
        plan_probe_orders(queries, statistics, method=method).cost / plan.cost
        for method in (Method.GREEDY, Method.SUBPLANS)
    ]
    alone = sum(plan_alone(query, statistics).probe_cost for query in queries)
    columns = len(build_model(plan.lattice, plan.targets(), most=plan.cost).model.costs)
    return _Round(alone, plan, columns, seconds, cpu_seconds, *fallbacks)


def _summary(case: Case, rounds: Sequence[_Round]) -> Line:
    return Line(
        case=case,
        alone=median(each.alone for each in rounds),
        together=median(each.plan.probe_cost for each in rounds),
        saved=median(1 - each.plan.probe_cost / each.alone for each in rounds),
        columns=round(median(each.columns for each in rounds)),
        edges=round(median(len(each.plan.lattice.edges) for each in rounds)),
        seconds=median(each.seconds for each in rounds),
        slowest=max(each.seconds for each in rounds),
        cpu_seconds=median(each.cpu_seconds for each in rounds),
        gap=max(each.plan.gap for each in rounds),
        greedy=median(each.greedy for each in rounds),
        subplans=median(each.subplans for each in rounds),
    )


def measure_adding(case: Case, *, seed: int = 1) -> Adding:
    """Queries added one by one to a plan of `case.queries`."""
    predicates, statistics = environment(case.relations, seed)
    more = Case(case.relations, case.queries + _ADDED, case.size)
    queries = make_queries(more, predicates, seed)
    plan = plan_probe_orders(queries[: case.queries], statistics)
    took = []
    for query in queries[case.queries :]:
        began = time.perf_counter()
        plan = add_queries(plan, [query])
        took.append(time.perf_counter() - began)
    again = plan_probe_orders(queries, statistics)
    return Adding(case, median(took), max(took), plan.cost / again.cost)


def verdicts(lines: Sequence[Line], adding: Sequence[Adding]) -> list[Verdict]:
    """The bars that these figures can be held against."""
    found = []
    for line in lines:
        case = line.case
        if (case.queries, case.size) == (100, 3):
            found.append(Verdict(f"seconds to the optimum, {case}", line.seconds, BAR_SECONDS))
            if case.relations == 10:
                found.append(Verdict(f"saved of the probe cost, {case}", line.saved, BAR_SAVED))
        if case.size == 5 and case.queries in (10, 30):
            bar_gap, bar_seconds = (0.01, 2.0) if case.queries == 10 else (0.02, 10.0)
            found.append(Verdict(f"proven gap, {case}", line.gap, bar_gap))
            found.append(Verdict(f"seconds, {case}", line.slowest, bar_seconds))
    found.extend(
        Verdict(f"seconds to add a query, {each.case}", each.seconds, BAR_ADDING)
        for each in adding
        if each.case.queries == 100
    )
    return found


def to_table(title: str, lines: Sequence[Line]) -> Table:
    """For the terminal."""
    table = Table(title=title, title_justify="left")
    table.add_column("queries")
    for heading in ("alone", "together", "saved", "columns", "ms", "slowest", "cpu ms", "gap", "greedy", "subplans"):
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(
            str(line.case),
            f"{line.alone:,.0f}",
            f"{line.together:,.0f}",
            f"{line.saved:.1%}",
            f"{line.columns:,}",
            f"{line.seconds * 1000:,.0f}",
            f"{line.slowest * 1000:,.0f}",
            f"{line.cpu_seconds * 1000:,.0f}",
            f"{line.gap:.2%}",
            f"× {line.greedy:.3f}",
            f"× {line.subplans:.3f}",
        )
    return table


def draw(figures: dict[str, Sequence[Line]], path: Path) -> None:
    """Fig. 9 as one picture: cost and size for few and for many relations, time by number and by size of queries."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    grid, axes = pyplot.subplots(2, 3, figsize=(15, 8))
    for row, name in enumerate(("9a, 9b: 10 relations", "9c–9e: 100 relations")):
        lines = figures[name]
        counts = [line.case.queries for line in lines]
        cost, size = axes[row][0], axes[row][1]
        cost.plot(counts, [line.alone for line in lines], marker="o", label="each alone")
        cost.plot(counts, [line.together for line in lines], marker="o", label="together")
        cost.set(title=f"probe cost, {lines[0].case.relations} relations", xlabel="queries", ylabel="tuples/s")
        size.plot(counts, [line.columns for line in lines], marker="o", label="columns of the program")
        size.plot(counts, [line.edges for line in lines], marker="o", label="edges of the lattice")
        size.set(title=f"problem size, {lines[0].case.relations} relations", xlabel="queries")
        axes[0][2].plot(
            counts, [line.seconds for line in lines], marker="o", label=f"{lines[0].case.relations} relations"
        )
    axes[0][2].set(title="seconds, 3-way queries", xlabel="queries", ylabel="seconds")
    for size_of_query in (4, 5):
        lines = [
            line for line in figures["9f: query size"] if line.case.size == size_of_query and line.case.relations == 100
        ]
        counts = [line.case.queries for line in lines]
        axes[1][2].plot(
            counts, [line.seconds for line in lines], marker="o", label=f"{size_of_query}-way, 100 relations"
        )
    axes[1][2].set(title="seconds by query size", xlabel="queries", ylabel="seconds", yscale="log")
    for each in axes.flat:
        each.grid(visible=True, alpha=0.3)
        each.legend()
    grid.tight_layout()
    grid.savefig(path, dpi=120)
    pyplot.close(grid)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write JSON and PNG; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="weft-bench optimizer", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="random environments for each figure (default 5)")
    parser.add_argument("--only", choices=("clash", "saspar"), help="one of the two; SASPAR's takes eight minutes")
    parser.add_argument("--quick-check", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="where JSON and PNG go")
    asked = parser.parse_args(arguments)
    saspar = [*(["--quick"] if asked.quick_check else []), "--out", str(asked.out)]
    missed = 0 if asked.only == "saspar" else _probe_orders(asked)
    return max(missed, 0 if asked.only == "clash" else partitioning.main(saspar))


def _probe_orders(asked: argparse.Namespace) -> int:
    console = Console(width=_WIDTH)
    plan_alone(make_queries(Case(10, 1, 3), environment(10, 0)[0], 0)[0], Statistics())  # load the solver
    cases = {"9a, 9b: 10 relations": FIGURE_A, "9c–9e: 100 relations": FIGURE_C, "9f: query size": FIGURE_F}
    if asked.quick_check:
        cases = {"9a, 9b: 10 relations": QUICK[:1], "9c–9e: 100 relations": QUICK[:1], "9f: query size": QUICK[1:]}
    figures: dict[str, Sequence[Line]] = {}
    for title, each in cases.items():
        figures[title] = [measure(case, rounds=asked.rounds) for case in each]
        console.print(to_table(title, figures[title]))
    grown = [Case(10, 10, 3)] if asked.quick_check else [Case(10, 100, 3), Case(100, 100, 3)]
    adding = [measure_adding(case) for case in grown]
    _print_adding(console, adding)
    bars = verdicts([line for lines in figures.values() for line in lines], adding)
    for bar in bars:
        console.print(
            f"{bar.what}: {bar.measured:.4g} (bar {bar.bar:g}): {'met' if bar.met else 'MISSED'}", highlight=False
        )
    asked.out.mkdir(parents=True, exist_ok=True)
    document = {
        "cost_model": asdict(CostModel()),
        "rounds": asked.rounds,
        "figures": {title: [asdict(line) for line in lines] for title, lines in figures.items()},
        "adding": [asdict(each) for each in adding],
        "bars": [asdict(bar) | {"met": bar.met} for bar in bars],
    }
    (asked.out / "optimizer.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    draw(figures, asked.out / "optimizer.png")
    console.print(f"figures: {asked.out / 'optimizer.json'}, {asked.out / 'optimizer.png'}")
    return 0 if all(bar.met for bar in bars) else 1


def _print_adding(console: Console, adding: Sequence[Adding]) -> None:
    for each in adding:
        console.print(
            f"adding a query to {each.case}: {each.seconds * 1000:.1f} ms, slowest {each.slowest * 1000:.1f} ms; "
            f"after {_ADDED} additions × {each.cost:.3f} of planning all again",
            highlight=False,
        )


if __name__ == "__main__":
    sys.exit(main())
