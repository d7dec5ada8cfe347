"""What a run of the benchmark has found, as values that are written as JSON and read again by reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

VERSION = 1
"""Of the JSON; a reader refuses what it does not know."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Some durations in figures, in seconds, each counted as often as it occurred."""

    count: float
    average: float
    least: float
    p50: float
    p90: float
    p95: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rate that was tried."""

    rate: float
    """Input rows per second, all streams together, that were generated."""
    pulled: float
    """Input rows per second that the slowest reader passed."""
    growth: float
    """Seconds by which event-time latency grew per second."""
    latency: Spread | None
    """Event-time latency; None if nothing reached the sink."""
    sustained: bool
    why: str = ""
    """What spoke against it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment of a run, for plots; `at` in seconds since the cell began."""

    at: float
    rate: float
    """Rows per second generated."""
    pulled: float
    queries: int
    latency: float | None
    """Median event-time latency of the rows that reached the sink since the sample before, in seconds."""
    waiting: int
    """Rows generated and not passed by the slowest reader."""
    memory: int
    """Bytes, shared pages counted once."""
    cores: float
    """Cores' worth of processor time used by the system since the sample before."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One system with one number of queries; what could not be measured is None, and `failure` may say why."""

    system: str
    queries: int
    failure: str = ""
    """Why it ended early: it failed, could not keep up with the least rate, or cannot express the queries."""
    sustainable: float | None = None
    """Input rows per second by definition 5."""
    overall: float | None = None
    """Input rows per second passed when the queue is never empty, times the queries that see them."""
    slowest: float | None = None
    """Input rows per second that every query has passed when the queue is never empty."""
    attempts: tuple[Attempt, ...] = ()
    event_latency: Spread | None = None
    """At 90 % of the sustainable rate, definitions 1 and 3."""
    processing_latency: Spread | None = None
    """The same by definitions 2 and 4."""
    deployment: Spread | None = None
    """From when a create request was due to when the query was live."""
    removal: Spread | None = None
    refused: int = 0
    """Requests that failed or were not answered in time."""
    query_throughput: float | None = None
    """Queries that became live per second while requests came in."""
    latency_before: Spread | None = None
    """Event-time latency of the oldest query while no requests came in."""
    latency_during: Spread | None = None
    """The same while they did."""
    cores: float | None = None
    """Cores' worth of processor time, on average while measured."""
    peak_memory: int = 0
    bytes_shuffled: int | None = None
    state_bytes: int | None = None
    samples: tuple[Sample, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """An experiment: its systems in turns, on one machine."""

    experiment: str
    title: str
    at: str
    """When it began, as ISO 8601."""
    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    cells: tuple[Cell, ...]
    version: int = field(default=VERSION)


def to_json(run: Run) -> dict[str, Any]:
    """As JSON takes it."""
    return asdict(run)


def compact(run: Run) -> Run:
    """Return the run without the samples, which only plots need: one small record per published run."""
    return replace(run, cells=tuple(replace(cell, samples=()) for cell in run.cells))


def from_json(value: Mapping[str, Any]) -> Run:
    """The inverse of `to_json`; raises ValueError for another version."""
    if value.get("version") != VERSION:
        raise ValueError(f"this is version {value.get('version')!r} of a benchmark's figures, not {VERSION}")
    return Run(**dict(value, cells=tuple(_cell(each) for each in value["cells"])))


_SPREADS = (
    "event_latency",
    "processing_latency",
    "deployment",
    "removal",
    "latency_before",
    "latency_during",
)


def _cell(value: Mapping[str, Any]) -> Cell:
    spreads = {name: _spread(value[name]) for name in _SPREADS}
    attempts = tuple(Attempt(**dict(each, latency=_spread(each["latency"]))) for each in value["attempts"])
    samples: Sequence[Mapping[str, Any]] = value["samples"]
    return Cell(**dict(value, **spreads, attempts=attempts, samples=tuple(Sample(**each) for each in samples)))


def _spread(value: Mapping[str, Any] | None) -> Spread | None:
    return None if value is None else Spread(**value)
