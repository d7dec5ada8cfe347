"""Whether a series of measurements is flat after warm-up: a robust slope, its share of the mean, and the noise.

A series consists of segments: a process that is restarted begins a new one. The first part of every segment is warm-up.
The slope is the median of the slopes of all pairs of later measurements of the same segment (Theil and Sen), so neither
outliers nor the jump of a restart count. A series grows if all three hold:

- in the unit of time that the rule names it grows by more than a share of its mean;
- in the time that was judged it has grown by more than its floor, which keeps two more files of ten from being a leak;
- in that time it has grown by more than its noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

FEWEST = 5
"""Measurements of a segment after warm-up; with fewer it is not judged."""
SHORTEST = 1 / 4
"""Of the longest segment; what is shorter is all warm-up, and not judged either."""
_MOST = 500
"""Measurements of a segment whose pairs are all compared; of more, every second, third, … is taken."""
_OF_A_NORMAL = 1.4826
"""The standard deviation of normal noise, in medians of its absolute values."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Point:
    """A measurement: when (seconds, or batches, or queries), and what."""

    at: float
    value: float
    segment: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """What growth is: more than `tolerance` of the mean within `per` units of `Point.at`."""

    per: float
    tolerance: float
    warm_up: float = 1 / 3
    """The share of each segment that is not judged."""


class State(StrEnum):
    """What can be said of a series."""

    FLAT = "flat"
    GROWS = "grows"
    SHORT = "too short"
    EXEMPT = "not judged"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judged part of a series is like."""

    state: State
    first: float = 0.0
    """The median of its first tenth."""
    last: float = 0.0
    """The median of its last tenth."""
    mean: float = 0.0
    slope: float = 0.0
    """Growth within the rule's unit."""
    share: float = 0.0
    """The same as a share of the mean."""
    change: float = 0.0
    """Growth within the longest segment that was judged."""
    noise: float = 0.0
    """The standard deviation around the slope, estimated without outliers."""
    points: int = 0


def judge(points: Iterable[Point], rule: Rule, *, floor: float = 0.0) -> Verdict:
    """Whether a series grows. `floor` is the growth within the judged time that does not matter."""
    segments = _judged(points, rule.warm_up)
    if not segments:
        return Verdict(State.SHORT)
    slope = float(np.median(np.concatenate([_slopes(at, values) for at, values in segments])))
    residuals = np.concatenate([values - slope * at - np.median(values - slope * at) for at, values in segments])
    noise = _OF_A_NORMAL * float(np.median(np.abs(residuals)))
    change = slope * max(float(at[-1] - at[0]) for at, _ in segments)
    mean = float(np.mean(np.concatenate([values for _, values in segments])))
    share = _share(slope * rule.per, mean)
    grows = share > rule.tolerance and change > floor and change > noise
    return Verdict(
        state=State.GROWS if grows else State.FLAT,
        first=_tenth(segments[0][1], last=False),
        last=_tenth(segments[-1][1], last=True),
        mean=mean,
        slope=slope * rule.per,
        share=share,
        change=change,
        noise=noise,
        points=sum(len(at) for at, _ in segments),
    )


def judge_pair(first: Sequence[float], last: Sequence[float], *, tolerance: float, floor: float) -> Verdict:
    """Whether something that is measured early and late only, a few times each, takes more in the end.

    The smallest of each is compared: what else the machine does can only add to a duration.
    """
    if not first or not last:
        return Verdict(State.SHORT)
    early, late = min(first), min(last)
    noise = max(max(first) - early, max(last) - late)
    change, share = late - early, _share(late - early, early)
    grows = share > tolerance and change > floor
    return Verdict(
        state=State.GROWS if grows else State.FLAT,
        first=early,
        last=late,
        mean=(early + late) / 2,
        slope=change,
        share=share,
        change=change,
        noise=noise,
        points=len(first) + len(last),
    )


def _judged(points: Iterable[Point], warm_up: float) -> list[tuple[Numbers, Numbers]]:
    """The times and values behind its warm-up of each segment that is long enough."""
    ordered = sorted(points, key=lambda point: (point.segment, point.at))
    found = []
    for _, group in groupby(ordered, key=lambda point: point.segment):
        each = list(group)
        begin = each[0].at + warm_up * (each[-1].at - each[0].at)
        kept = [point for point in each if point.at >= begin]
        kept = kept[:: -(-len(kept) // _MOST)]
        found.append((np.array([point.at for point in kept]), np.array([point.value for point in kept])))
    longest = max((at[-1] - at[0] for at, _ in found), default=0.0)
    return [each for each in found if len(each[0]) >= FEWEST and each[0][-1] - each[0][0] >= SHORTEST * longest]


def _slopes(at: Numbers, values: Numbers) -> Numbers:
    """Of all pairs."""
    left, right = np.triu_indices(len(at), k=1)
    distance = at[right] - at[left]
    apart = distance > 0
    slopes: Numbers = (values[right] - values[left])[apart] / distance[apart]
    return slopes


def _share(growth: float, mean: float) -> float:
    if mean > 0:
        return growth / mean
    return float("inf") if growth > 0 else 0.0


def _tenth(values: Numbers, *, last: bool) -> float:
    number = max(1, len(values) // 10)
    return float(np.median(values[-number:] if last else values[:number]))
