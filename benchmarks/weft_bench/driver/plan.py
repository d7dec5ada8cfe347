"""What to do in a cell, and how it goes: values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft_bench.driver.messages import QueryOrder
from weft_bench.driver.profile import Constant, Profile
from weft_bench.driver.releases import Factory
from weft_bench.driver.schedule import Request, Waves
from weft_bench.driver.sustained import Rule


@dataclass(frozen=True, slots=True)
class Saturated:
    """Keep the queue from running empty: gives `overall` and `slowest`, and the guess for a search."""

    seconds: float = 20.0
    churning: bool = False
    """Whether `CellPlan.waves` of requests go on meanwhile."""


@dataclass(frozen=True, slots=True)
class Searched:
    """Search for the sustainable rate, each attempt so many seconds long: gives `sustainable` and `attempts`."""

    seconds: float = 15.0
    width: float = 0.05
    attempts: int = 14
    most: float = math.inf
    churning: bool = False


@dataclass(frozen=True, slots=True)
class Steady:
    """One rate for a while: gives `event_latency` and `processing_latency`."""

    seconds: float = 20.0
    rate: float | None = None
    """Rows per second; None: `share` of the sustainable rate."""
    share: float = 0.9


@dataclass(frozen=True, slots=True)
class Quiet:
    """One rate for a while without requests: gives `latency_before`."""

    seconds: float = 20.0
    rate: float | None = None
    share: float = 0.9


@dataclass(frozen=True, slots=True)
class Churned:
    """The same with requests in waves: gives `latency_during`, `deployment`, `removal`, `query_throughput`."""

    seconds: float = 40.0
    rate: float | None = None
    share: float = 0.9


Phase = Saturated | Searched | Steady | Quiet | Churned


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait for what, in seconds."""

    start: float = 180.0
    """For a system to be ready."""
    request: float = 60.0
    """For the answer to a request."""
    opening: float = 600.0
    """For all first requests to be answered."""
    drain: float = 120.0
    """For the queue to be worked off."""
    queue: float = 20.0
    """Of rows at the present rate: the queue is full then."""
    keep: float = 20.0
    """Files that everybody has passed; three times that while requests come in, whose readers may look for them."""


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One system with one number of queries, and what to measure."""

    system: str
    command: tuple[str, ...]
    workload: Factory
    opening: tuple[Request, ...]
    """Creates before anything is measured, at the base rate."""
    folder: Path
    """For the system's scratch and the logs; only the logs are left."""
    guess: float
    """Rows per second that the system may pass; too little is better than too much."""
    feed: Path | None = None
    """Where the streams' files appear; None: in `folder`. In memory they do not compete with a system's own files."""
    base: float = 1000.0
    """Rows per second while queries are created."""
    least: float = 100.0
    """Rows per second below which a system counts as unable to keep up."""
    phases: tuple[Phase, ...] = (Saturated(), Searched(), Steady())
    waves: Waves | None = None
    pool: tuple[QueryOrder, ...] = ()
    """Queries that come and go in waves."""
    queries: int | None = None
    """For the record; None: as many as the opening creates."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """On top of that of the driver."""
    settings: Mapping[str, str] = field(default_factory=dict)
    interval: float = 0.25
    """Seconds from file to file."""
    batch_interval: float = 0.0
    """Seconds between micro-batches of systems that have them."""
    cores: int = 2
    heap_gigabytes: int = 4
    profile: Profile = field(default_factory=Constant)
    rule: Rule = field(default_factory=Rule)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.churns and (self.waves is None or not self.pool):
            raise ValueError(f"the plan for {self.system} has requests in waves, but no waves or no queries for them")

    @property
    def feed_folder(self) -> Path:
        """Where the streams' files appear."""
        return self.folder / "feed" if self.feed is None else self.feed

    @property
    def churns(self) -> bool:
        """Whether requests go on in a phase."""
        return any(isinstance(each, Churned) or getattr(each, "churning", False) for each in self.phases)


@dataclass(frozen=True, slots=True)
class Progress:
    """How a cell goes, about once per second."""

    system: str
    phase: str
    """What is being done, in a word or two."""
    share: float
    """Of the phase, from 0 to 1, as far as that can be said."""
    rate: float
    """Rows per second generated."""
    pulled: float
    waiting: int
    queries: int
    latency: float | None
    memory: int
