"""Figures of cells, medians over rounds, weft beside each peer at equal numbers of queries, and goals: all pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from weft_bench.experiments import EXPERIMENTS, Mode
from weft_bench.record import Cell, Run, Spread

OURS = "weft"
EQUAL = 1.005
"""A lead that is none: it would be printed as 1.00."""


class Better(StrEnum):
    """Which way a figure has to go to be better."""

    MORE = "more"
    LESS = "less"
    NEITHER = "neither"


class Unit(StrEnum):
    """What a figure counts."""

    ROWS = "rows/s"
    SECONDS = "s"
    BYTES = "bytes"
    CORES = "cores"
    QUERIES = "queries/s"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a cell."""

    title: str
    unit: Unit
    better: Better
    read: Callable[[Cell], float | None]


@dataclass(frozen=True, slots=True)
class Place:
    """All rounds of one system with one number of queries."""

    system: str
    queries: int
    rounds: tuple[Cell, ...]

    def figure(self, figure: Figure) -> float | None:
        """The median over the rounds that have it; None if none has."""
        return self.median(figure.read)

    def median(self, read: Callable[[Cell], float | None]) -> float | None:
        """The same for anything that can be read from a cell."""
        values = [value for cell in self.rounds if (value := read(cell)) is not None]
        return median(values) if values else None

    @property
    def failure(self) -> str:
        """Why rounds ended early, each reason once; empty if none did."""
        reasons = dict.fromkeys(cell.failure for cell in self.rounds if cell.failure)
        failed = sum(bool(cell.failure) for cell in self.rounds)
        said = "; ".join(reasons)
        return (
            said if failed == len(self.rounds) else f"{failed} of {len(self.rounds)} rounds: {said}" if failed else ""
        )

    @property
    def has_failed(self) -> bool:
        """Whether no round came to a result."""
        return all(has_failed(cell) for cell in self.rounds)

    @property
    def is_limit(self) -> bool:
        """Whether it went over all rows in one pass, without streaming: no rate was searched or held."""
        return all(is_one_pass(cell) for cell in self.rounds)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Weft beside a peer at one figure and number of queries."""

    figure: Figure
    queries: int
    peer: str
    ours: float | None
    theirs: float | None

    @property
    def factor(self) -> float | None:
        """How many times as good as the peer weft is, below one where the peer wins; None if either has no figure."""
        if not self.ours or not self.theirs:
            return None
        return self.theirs / self.ours if self.figure.better is Better.LESS else self.ours / self.theirs

    @property
    def winner(self) -> str:
        """Who is better; empty if neither is."""
        if self.ours is None or self.theirs is None:
            return OURS if self.ours is not None else self.peer if self.theirs is not None else ""
        factor = self.factor or 1.0
        return OURS if factor > EQUAL else self.peer if factor < 1 / EQUAL else ""

    @property
    def lead(self) -> float | None:
        """How many times as good as the other the winner is."""
        factor = self.factor
        return None if factor is None else max(factor, 1 / factor)


class Verdict(StrEnum):
    """Whether a goal was reached."""

    MET = "met"
    MISSED = "MISSED"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Goal:
    """What had to be shown, what was, and whether that is enough."""

    what: str
    measured: str
    verdict: Verdict


def has_failed(cell: Cell) -> bool:
    """It ended early, before there was a sustainable rate."""
    return bool(cell.failure) and cell.sustainable is None


def is_one_pass(cell: Cell) -> bool:
    """A limit: rows per second without streaming, so neither a rate was tried nor latency measured."""
    streamed = cell.sustainable is not None or cell.attempts or cell.samples or cell.event_latency is not None
    return cell.slowest is not None and not streamed


def speed(cell: Cell) -> float | None:
    """Input rows per second: sustainable; where none was looked for, what every query passed from a full queue."""
    looked_for = cell.sustainable is not None or cell.attempts or cell.failure
    return cell.sustainable if looked_for else cell.slowest


def of_spread(part: str, value: str) -> Callable[[Cell], float | None]:
    """Reads a value, such as `p99`, from a part of a cell, such as `event_latency`."""

    def read(cell: Cell) -> float | None:
        spread: Spread | None = getattr(cell, part)
        return None if spread is None else float(getattr(spread, value))

    return read


def _durations(part: str, title: str, *values: str) -> dict[str, Figure]:
    return {
        f"{part}_{value}": Figure(f"{title} {value}", Unit.SECONDS, Better.LESS, of_spread(part, value))
        for value in values
    }


SPEED = Figure("throughput", Unit.ROWS, Better.MORE, speed)
FIGURES: Mapping[str, Figure] = {
    "sustainable": Figure("sustainable throughput", Unit.ROWS, Better.MORE, lambda cell: cell.sustainable),
    "overall": Figure("overall throughput", Unit.ROWS, Better.MORE, lambda cell: cell.overall),
    "slowest": Figure("slowest throughput", Unit.ROWS, Better.MORE, lambda cell: cell.slowest),
    **_durations("event_latency", "event-time latency", "average", "p50", "p90", "p95", "p99", "most"),
    **_durations("processing_latency", "processing-time latency", "average", "p50", "p90", "p95", "p99", "most"),
    **_durations("deployment", "deployment latency", "average", "p50", "p99", "most"),
    **_durations("removal", "removal latency", "p50", "p99"),
    **_durations("latency_before", "latency before requests", "p99"),
    **_durations("latency_during", "latency during requests", "p99"),
    "query_throughput": Figure("query throughput", Unit.QUERIES, Better.MORE, lambda cell: cell.query_throughput),
    "refused": Figure("refused requests", Unit.COUNT, Better.LESS, lambda cell: float(cell.refused)),
    "cores": Figure("processor use", Unit.CORES, Better.NEITHER, lambda cell: cell.cores),
    "peak_memory": Figure("peak memory", Unit.BYTES, Better.LESS, lambda cell: cell.peak_memory or None),
    "state_bytes": Figure("state", Unit.BYTES, Better.LESS, lambda cell: cell.state_bytes),
    "bytes_shuffled": Figure("bytes shuffled", Unit.BYTES, Better.NEITHER, lambda cell: cell.bytes_shuffled),
}
"""All that can be compared, by the name in the JSON."""
COMPARED = (
    SPEED,
    FIGURES["event_latency_p99"],
    FIGURES["deployment_p99"],
    FIGURES["peak_memory"],
)
"""What weft and its peers are put side by side with."""


def places(cells: Iterable[Cell]) -> tuple[Place, ...]:
    """Cells by number of queries, then systems in the order in which they first appear."""
    rounds: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        rounds.setdefault((cell.system, cell.queries), []).append(cell)
    systems = list(dict.fromkeys(system for system, _ in rounds))
    ordered = sorted(rounds, key=lambda key: (key[1], systems.index(key[0])))
    return tuple(Place(system, queries, tuple(rounds[system, queries])) for system, queries in ordered)


def ratios(cells: Iterable[Cell], figures: Iterable[Figure] = COMPARED) -> tuple[Ratio, ...]:
    """Weft beside each peer that was tried with as many queries, where there is something to compare."""
    at = {(place.system, place.queries): place for place in places(cells)}
    return tuple(
        Ratio(figure, queries, system, ours.figure(figure), theirs.figure(figure))
        for figure in figures
        for (system, queries), theirs in at.items()
        if system != OURS and (ours := at.get((OURS, queries))) is not None and _can_compare(figure, ours, theirs)
    )


def _can_compare(figure: Figure, ours: Place, theirs: Place) -> bool:
    """At throughput one of them may have failed, and lost; elsewhere both must have run: dying young saves memory."""
    if figure is SPEED:
        ran = [place for place in (ours, theirs) if place.figure(figure) is not None]
        return len(ran) == 2 or (len(ran) == 1 and any(place.failure for place in (ours, theirs)))
    both = ours.figure(figure) is not None and theirs.figure(figure) is not None
    return both and not ours.has_failed and not theirs.has_failed


def goals(run: Run) -> tuple[Goal, ...]:
    """The bars of the benchmark and whether this run reaches them.

    Where queries come and go, systems that let them wait have fewer of them: their throughputs are not compared.
    """
    experiment = EXPERIMENTS.get(run.experiment)
    if experiment is not None and experiment.mode is Mode.CHURN:
        return (_deployment(run, bar=2.0, creates=100.0),)
    return (
        _over(run, "flink", queries=1, bar=1.3),
        _over(run, "flink", queries=20, bar=25.0),
        _over(run, "spark", queries=20, bar=100.0),
        _sustained(run, 1000),
        _latency(run, bar=2.0),
        _deployment(run, bar=2.0, creates=100.0),
        _of_limit(run, queries=100, bar=1 / 3),
    )


def _family(cells: Iterable[Cell], *names: str) -> tuple[Place, ...]:
    """Places of a system in all its variants: flink and flink-jobs are both Flink."""
    return tuple(place for place in places(cells) if place.system.split("-")[0] in names)


def _over(run: Run, peer: str, *, queries: int, bar: float) -> Goal:
    """Against the best of the peer's variants; a peer that was tried and could not run is beaten."""
    what = f"N = {queries}: at least {bar:g} × {peer.capitalize()}"
    ours = [place for place in places(run.cells) if (place.system, place.queries) == (OURS, queries)]
    theirs = [place for place in _family(run.cells, peer) if place.queries == queries]
    if not ours or not theirs:
        return Goal(what, "", Verdict.UNKNOWN)
    mine = ours[0].figure(SPEED)
    best = max((value for place in theirs if (value := place.figure(SPEED)) is not None), default=None)
    if mine is None and (best is not None or ours[0].failure):
        return Goal(what, "weft gave no sustainable rate", Verdict.MISSED)
    if mine is None:
        return Goal(what, "", Verdict.UNKNOWN)
    if best is None:
        return Goal(what, f"{peer} sustained no rate", Verdict.MET)
    return Goal(what, f"{mine / best:.3g} ×", _verdict(mine >= bar * best))


def _sustained(run: Run, queries: int) -> Goal:
    what = f"N = {queries}: sustained"
    ours = [place for place in _family(run.cells, OURS) if place.queries == queries]
    if not ours:
        return Goal(what, "", Verdict.UNKNOWN)
    rate = ours[0].figure(SPEED)
    return Goal(what, ours[0].failure if rate is None else f"{rate:,.0f} rows/s", _verdict(rate is not None))


def _latency(run: Run, *, bar: float) -> Goal:
    what = f"event-time latency p99 at most {bar:g} s at 90 % load"
    return _worst(run, what, FIGURES["event_latency_p99"], bar=bar)


def _deployment(run: Run, *, bar: float, creates: float) -> Goal:
    what = f"deployment latency p99 at most {bar:g} s at {creates:g} creates/s"
    asked = run.settings.get("creates_per_second")
    if not isinstance(asked, int | float) or asked < creates:
        return Goal(what, f"asked for at {asked} creates/s" if asked else "", Verdict.UNKNOWN)
    return _worst(run, what, FIGURES["deployment_p99"], bar=bar)


def _worst(run: Run, what: str, figure: Figure, *, bar: float) -> Goal:
    """The largest of all of weft's cells has to stay below the bar."""
    found = [
        (value, place.queries)
        for place in _family(run.cells, OURS)
        if (value := place.figure(figure)) is not None
    ]  # fmt: skip
    if not found:
        return Goal(what, "", Verdict.UNKNOWN)
    value, queries = max(found)
    return Goal(what, f"{value:.3g} s at most, with N = {queries}", _verdict(value <= bar))


def _of_limit(run: Run, *, queries: int, bar: float) -> Goal:
    """Against the faster of DuckDB and Polars in their best variant."""
    what = f"N = {queries}: at least {bar:.2g} of the one-pass limit of DuckDB and Polars"
    ours = [place for place in _family(run.cells, OURS) if place.queries == queries]
    limits = [place for place in _family(run.cells, "duckdb", "polars") if place.queries == queries]
    best = max((value for place in limits if (value := place.figure(SPEED)) is not None), default=None)
    if not ours or best is None:
        return Goal(what, "", Verdict.UNKNOWN)
    mine = ours[0].figure(SPEED)
    if mine is None:
        return Goal(what, "weft gave no sustainable rate", Verdict.MISSED)
    return Goal(what, f"{mine / best:.3g} of it", _verdict(mine >= bar * best))


def _verdict(met: bool) -> Verdict:
    return Verdict.MET if met else Verdict.MISSED
