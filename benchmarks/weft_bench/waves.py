"""Complex ad-hoc queries and how many of them run when: the thesis' figure 4.14, squeezed into one run. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median
from typing import assert_never

import numpy as np

from weft_bench.data import ATTRIBUTES, DOMAIN, STREAMS
from weft_bench.workload import LONGEST_WINDOW, Predicate

ALLOWED_GROWTH = 2.0
"""How many times the latency of the middle third that of the last third may be, in the median."""
_LEVELS = (
    (0.00, 0.10),
    (0.03, 0.10),  # at 50 of 1,500 seconds: a sharp increase
    (0.03, 0.50),
    (0.13, 0.50),  # at 200: another
    (0.13, 1.00),
    (0.27, 1.00),  # from 410 on: a gradual decrease
    (0.50, 0.30),  # then a gradual increase until 1,140
    (0.76, 0.90),
    (0.80, 0.60),
)
"""Share of the run, and share of the most queries there: straight lines between."""
_FLUCTUATION_FROM, _FLUCTUATION, _PERIOD = 0.80, 0.35, 0.05
"""After 1,200 seconds the number goes up and down."""


def wanted_queries(share: float, most: int) -> int:
    """How many queries shall run when this share of the run is over."""
    if share >= _FLUCTUATION_FROM:
        swing = math.sin(2 * math.pi * (share - _FLUCTUATION_FROM) / _PERIOD)
        level = _LEVELS[-1][1] + _FLUCTUATION * swing
    else:
        after = next(at for at, (begin, _) in enumerate(_LEVELS) if begin > share)
        (begin, low), (end, high) = _LEVELS[after - 1], _LEVELS[after]
        level = low + (high - low) * (share - begin) / (end - begin)
    return max(1, round(level * most))


@dataclass(frozen=True, slots=True)
class Step:
    """How many of the oldest queries leave, and how many new ones come."""

    leave: int
    come: int


def next_step(running: int, wanted: int, *, turnover: float) -> Step:
    """From one number of queries to another, with a share of those that stay replaced by new ones."""
    replaced = math.ceil(turnover * min(running, wanted))
    return Step(replaced + max(0, running - wanted), replaced + max(0, wanted - running))


class Shape(StrEnum):
    """What a complex query consists of, each with selections."""

    AGGREGATE = "aggregate"
    JOIN = "join"
    JOIN_AGGREGATE = "aggregate over a join"


@dataclass(frozen=True, slots=True)
class ComplexQuery:
    """Selections on one or both streams, then a window join, an aggregation, or both."""

    shape: Shape
    left: Predicate
    right: Predicate
    seconds: int
    slide: int
    group: int
    value: int

    def weft_sql(self) -> str:
        """As weft takes it."""
        sliding = f"[RANGE {self.seconds} SECONDS SLIDE {self.slide} SECONDS]"
        group, value = f"a.f{self.group}", f"f{self.value}"
        aggregates = f"{group} AS g, window_start AS start, COUNT(*) AS n, SUM(a.{value}) AS total"
        match self.shape:
            case Shape.AGGREGATE:
                return (
                    f"SELECT {aggregates}, MAX(a.{value}) AS most FROM {STREAMS[0]} {sliding} AS a "
                    f"WHERE {self.left.sql('a.')} GROUP BY {group}"
                )
            case Shape.JOIN:
                columns = f"a.ts AS a_ts, b.ts AS b_ts, a.k AS k, a.{value} AS x, b.{value} AS y"
                return f"SELECT {columns} {self._joined(f'[RANGE {self.seconds} SECONDS]')}"
            case Shape.JOIN_AGGREGATE:
                outputs = f"{aggregates}, AVG(b.{value}) AS average"
                return f"SELECT {outputs} {self._joined(sliding)} GROUP BY {group}"
            case _:
                assert_never(self.shape)

    def _joined(self, window: str) -> str:
        return (
            f"FROM {STREAMS[0]} {window} AS a JOIN {STREAMS[1]} {window} AS b ON a.k = b.k "
            f"WHERE {self.left.sql('a.')} AND {self.right.sql('b.')}"
        )


def complex_queries(seed: int) -> Iterator[ComplexQuery]:
    """Random queries without end; a third has each shape."""
    rng = np.random.default_rng(seed)
    while True:
        for shape in Shape:
            seconds = int(rng.integers(1, LONGEST_WINDOW + 1))
            yield ComplexQuery(
                shape,
                _predicate(rng),
                _predicate(rng),
                seconds,
                slide=int(rng.integers(1, seconds + 1)),
                group=int(rng.integers(ATTRIBUTES)),
                value=int(rng.integers(ATTRIBUTES)),
            )


def _predicate(rng: np.random.Generator) -> Predicate:
    return Predicate(int(rng.integers(ATTRIBUTES)), bool(rng.integers(2)), int(rng.integers(DOMAIN)))


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed batch as seen from outside: moments in seconds since 1970."""

    at: float
    newest: float
    """The event time, which is the time of generation, of its newest row."""
    rows: int
    queries: int

    @property
    def latency(self) -> float:
        """From the generation of the newest row to the commit."""
        return self.at - self.newest


@dataclass(frozen=True, slots=True)
class Latency:
    """The event-time latencies of a run, and what they are allowed to be, in seconds."""

    median: float
    middle: float
    """The median of the middle third of the run."""
    last: float
    """The median of its last third."""
    largest: float
    bound: float

    @property
    def is_bounded(self) -> bool:
        """No batch took longer than the bound, and the end is not much slower than the middle."""
        return self.largest <= self.bound and self.last <= ALLOWED_GROWTH * self.middle


def latency_of(commits: Sequence[Commit], begin: float, end: float, *, bound: float) -> Latency:
    """The latencies of the batches committed from `begin` to `end`; without end if a third has none."""
    thirds = [begin + (end - begin) * number / 3 for number in range(4)]
    within = [[c.latency for c in commits if low <= c.at < high] for low, high in pairwise(thirds)]
    every = [latency for third in within for latency in third]
    stalled = not all(within)
    return Latency(
        median=median(every) if every else math.inf,
        middle=median(within[1]) if within[1] else math.inf,
        last=median(within[2]) if within[2] else math.inf,
        largest=math.inf if stalled else max(every),
        bound=bound,
    )


def throughput_of(commits: Sequence[Commit]) -> list[tuple[float, float]]:
    """Moments and input rows per second there: the rows of a batch by the time since the one before."""
    return [
        (after.at, after.rows / (after.at - before.at)) for before, after in pairwise(commits) if after.at > before.at
    ]
