"""Outcomes of all rounds as one table, as JSON, and against the bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.table import Table

from weft_bench.case import Case, Kind, Outcome, System, Variant

GIGABYTE = 1 << 30
BARS_OVER_SPARK: Mapping[Kind, Mapping[int, float]] = {
    Kind.JOINS: {1: 8.0, 20: 100.0},
    Kind.AGGREGATES: {1: 1.0, 20: 15.0},
}
"""How many times as fast as plain Structured Streaming weft has to be, by the number of queries."""
MANY_AGGREGATES, BAR_OVER_ONE = 100, 0.6
"""How much of its speed with one aggregate weft has to keep with so many."""
BAR_OVER_SPIKE = 0.8
MOST_QUERIES, MOST_MEMORY = 1000, 4 * GIGABYTE


@dataclass(frozen=True, slots=True)
class Line:
    """One case over all rounds: medians of the speed, the largest of the memory."""

    case: Case
    rows_per_second: float
    batch_seconds: float
    pss: int
    rss: int
    over_spark: float | None
    over_spike: float | None
    note: str

    @property
    def query_rows_per_second(self) -> float:
        """Input rows times queries that see them."""
        return self.rows_per_second * self.case.queries


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar, what was measured, and whether that is enough."""

    what: str
    measured: float
    bar: float
    met: bool


def summarize(outcomes: Iterable[tuple[Case, Outcome]]) -> list[Line]:
    """One line per case, in the order in which cases first appear, compared with the best of Spark at the same N."""
    rounds: dict[Case, list[Outcome]] = {}
    for case, outcome in outcomes:
        rounds.setdefault(case, []).append(outcome)
    speeds = {case: median(outcome.rows_per_second for outcome in each) for case, each in rounds.items()}
    return [
        Line(
            case=case,
            rows_per_second=speeds[case],
            batch_seconds=median(outcome.batch_seconds for outcome in each),
            pss=max(outcome.pss for outcome in each),
            rss=max(outcome.rss for outcome in each),
            over_spark=_ratio(case, speeds, System.SPARK),
            over_spike=_ratio(case, speeds, System.SPIKE),
            note=each[-1].note,
        )
        for case, each in rounds.items()
    ]


def _ratio(case: Case, speeds: dict[Case, float], base: System) -> float | None:
    """How many times as fast as the best of `base` with as many queries; None if there is nothing to compare."""
    same = [other for other in speeds if (other.kind, other.queries) == (case.kind, case.queries)]
    best = max((speeds[other] for other in same if other.system is base), default=0.0)
    return speeds[case] / best if best and case.system is System.WEFT else None


def verdicts(lines: Sequence[Line]) -> list[Verdict]:
    """The bars that these lines can be held against."""
    plain = [line for line in lines if line.case.system is System.WEFT and line.case.variant is Variant.PLAIN]
    joins = [line for line in plain if line.case.kind is Kind.JOINS]
    aggregates = [line for line in plain if line.case.kind is Kind.AGGREGATES]
    return [
        *_over_spark(joins, Kind.JOINS),
        *_of_joins(joins),
        *_over_spark(aggregates, Kind.AGGREGATES),
        *_of_aggregates(aggregates),
    ]


def _over_spark(plain: Sequence[Line], kind: Kind) -> Iterator[Verdict]:
    for number, bar in BARS_OVER_SPARK[kind].items():
        ratios = [line.over_spark for line in plain if line.case.queries == number and line.over_spark is not None]
        if ratios:  # each system with the size of batches that suits it
            yield _at_least(f"{kind}: weft over Spark at N = {number}", max(ratios), bar)


def _of_joins(plain: Sequence[Line]) -> Iterator[Verdict]:
    for line in (line for line in plain if line.case.files == 1):
        number = line.case.queries
        if line.over_spike is not None:
            yield _at_least(f"joins: weft over the spike at N = {number}", line.over_spike, BAR_OVER_SPIKE)
        if number == MOST_QUERIES:
            what = f"joins: peak memory in GB at N = {number}, at most"
            yield Verdict(what, line.pss / GIGABYTE, MOST_MEMORY / GIGABYTE, line.pss <= MOST_MEMORY)


def _of_aggregates(plain: Sequence[Line]) -> Iterator[Verdict]:
    best: dict[int, float] = {}
    for line in plain:
        best[line.case.queries] = max(line.rows_per_second, best.get(line.case.queries, 0.0))
    alike = {(line.case.files, line.case.queries): line.rows_per_second for line in plain}
    for files in sorted({files for files, _ in alike}):
        one, many = alike.get((files, 1)), alike.get((files, MANY_AGGREGATES))
        if one and many is not None:
            what = f"aggregates: weft at N = {MANY_AGGREGATES} over weft at N = 1, {files} files per batch"
            yield _at_least(what, many / one, BAR_OVER_ONE)
    if MOST_QUERIES in best:
        rate = best[MOST_QUERIES]
        yield Verdict(f"aggregates: rows/s at N = {MOST_QUERIES}, which has to run", rate, 0.0, rate > 0)


def _at_least(what: str, measured: float, bar: float) -> Verdict:
    return Verdict(what, measured, bar, measured >= bar)


def to_tables(lines: Sequence[Line]) -> list[Table]:
    """For the terminal, one for each kind of queries."""
    kinds = dict.fromkeys(line.case.kind for line in lines)
    return [_to_table(kind, [line for line in lines if line.case.kind is kind]) for kind in kinds]


def _to_table(kind: Kind, lines: Sequence[Line]) -> Table:
    table = Table(title=f"{kind}: input rows per second of the whole set of N queries")
    table.add_column("system")
    for heading in ("N", "rows/s", "batch ms", "query-rows/s", "peak MB", "× Spark", "× spike"):
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(
            line.case.label,
            f"{line.case.queries:,}",
            f"{line.rows_per_second:,.0f}",
            f"{line.batch_seconds * 1000:,.0f}",
            f"{line.query_rows_per_second:,.0f}",
            f"{line.pss / (1 << 20):,.0f}",
            _times(line.over_spark),
            _times(line.over_spike),
        )
    return table


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:,.2f}"


def to_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        asdict(line) | {"label": line.case.label, "query_rows_per_second": line.query_rows_per_second} for line in lines
    ]
