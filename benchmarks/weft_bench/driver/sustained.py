"""Whether a system has sustained a rate, by definition 5: no continuously growing event-time latency. Pure.

A rate is sustained iff all of this holds for the measured part, which is an attempt without its first quarter (or, for
a system that fell behind by a little, all of a second attempt without a break between them):

1. The generator kept up: none of its files came more than a second late. Otherwise the attempt says nothing.
2. The queue was never full, and rows were passed more than once: of a single pass nobody can say what follows.
3. Event-time latency does not grow continuously. Taken are the rows that reached the sink in the measured part; of each
   second in which some did, the median (of a dozenth of a part that is shorter than twelve seconds): a micro-batch
   makes one point, however its rows differ. It grows continuously
   if the median slope (Theil and Sen) is above `growth` seconds per second, and so many more pairs of points rise than
   fall that chance is no explanation (Mann and Kendall, one-sided, 1 %): either alone is what jitter does to a series.
   Where nothing reaches the sink, what is left waiting is all there is.
4. What is left waiting right after each pass of the slowest reader, in seconds of the rate, does not grow so either.
5. The slowest reader passed at least `pulled` of the rate, from the first pass in the measured part to the last. As a
   measured part may begin and end anywhere between two passes, less counts only if the last pass left more rows
   waiting than the first, by more than half of what is passed at once.
6. Where a bound is asked for, 99 of 100 rows reach the sink within it. Definition 5 has none: a system of micro-batches
   may sustain more with batches of many seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from weft_bench.driver.feed import Pass
from weft_bench.driver.latency import Floats, Trend, medians, trend


@dataclass(frozen=True, slots=True)
class Rule:
    """What is still taken as sustained."""

    growth: float = 0.03
    certain: float = 2.33
    """Standard deviations."""
    pulled: float = 0.97
    late: float = 1.0
    bound: float = math.inf
    """Seconds of event-time latency, in the 99th percentile."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values at moments."""

    moments: Floats = field(default_factory=lambda: np.empty(0))
    values: Floats = field(default_factory=lambda: np.empty(0))

    def trend(self) -> Trend:
        """How it goes."""
        return trend(self.moments, self.values)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the measured part of an attempt has shown."""

    rate: float
    latency: Series
    """Median event-time latency by the second of delivery."""
    passes: Sequence[Pass]
    """Of the slowest reader, in the measured part."""
    left: Sequence[float]
    """Rows that were due and not passed yet right after each of them."""
    full: bool = False
    late: float = 0.0
    p99: float = 0.0
    """Event-time latency of the rows that reached the sink."""


class Outcome(StrEnum):
    """What an attempt says of its rate."""

    SUSTAINED = "sustained"
    FELL_BEHIND = "fell behind"
    INVALID = "says nothing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome, what spoke against it, and the figures."""

    outcome: Outcome
    why: str
    growth: float
    pulled: float


def judge(evidence: Evidence, rule: Rule) -> Verdict:
    """Apply the rule above."""
    growth, pulled = _growths(evidence)[0], pulled_rate(evidence)
    outcome, why = Outcome.SUSTAINED, ""
    if evidence.late > rule.late:
        outcome, why = Outcome.INVALID, f"generator could not keep up: {evidence.late:.1f} s behind its clock"
    elif against := _against(evidence, rule):
        outcome, why = Outcome.FELL_BEHIND, "; ".join(against)
    return Verdict(outcome, why, growth.slope, pulled)


def pulled_rate(evidence: Evidence) -> float:
    """Rows per second that the slowest reader passed, from its first pass to its last."""
    if len(evidence.passes) < 2:
        return 0.0
    first, last = evidence.passes[0], evidence.passes[-1]
    return (last.rows - first.rows) / max(last.at - first.at, 1e-9)


def _against(evidence: Evidence, rule: Rule) -> list[str]:
    against = []
    if evidence.full:
        against.append("queue full")
    if len(evidence.passes) < 2:
        against.append(f"rows were passed {'once' if evidence.passes else 'never'} in all that time")
    for what, growth in zip(("latency", "queue"), _growths(evidence), strict=True):
        if growth.slope > rule.growth and growth.score > rule.certain:
            against.append(f"{what} grew by {growth.slope:.3f} s per second")
    if _fell_short(evidence, rule):
        against.append(f"passed {pulled_rate(evidence) / evidence.rate:.1%} of the rate")
    if evidence.p99 > rule.bound:
        against.append(f"latency of {evidence.p99:.1f} s, above the bound of {rule.bound:g} s")
    return against


def _growths(evidence: Evidence) -> tuple[Trend, Trend]:
    """Of latency and of the queue; the latter stands in for the former where nothing reaches the sink."""
    at = np.array([each.at for each in evidence.passes], np.float64)
    left = np.array(evidence.left, np.float64) / evidence.rate
    queue = trend(*medians(at, left, np.ones(len(at))))
    return (evidence.latency.trend() if len(evidence.latency.values) else queue), queue


def _fell_short(evidence: Evidence, rule: Rule) -> bool:
    if len(evidence.passes) < 2 or pulled_rate(evidence) >= rule.pulled * evidence.rate:
        return False
    lump = (evidence.passes[-1].rows - evidence.passes[0].rows) / (len(evidence.passes) - 1)
    return evidence.left[-1] - evidence.left[0] > lump / 2
