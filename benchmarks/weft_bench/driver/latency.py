"""From what reached the sink to latencies, by definitions 1 to 4 of the thesis: pure arithmetic.

Event-time latency is counted from the moment an event time was *due*, not from when its file was there or was read:
a generator or a queue that waits for the system cannot hide its slowness. Processing-time latency is counted from the
moment the system began to read the file. The event time of a result row is the largest of those it was made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft_bench.driver.feed import Events, Feed
from weft_bench.driver.messages import Delivered
from weft_bench.record import Spread

Floats = npt.NDArray[np.float64]
RESOLUTION = 10_000
"""Event times come in steps of so many microseconds, rounded down: their middle is what they mean."""
_SIGNIFICANT = 1e-9
_PIECES = 12


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Groups of result rows that reached the sink: parallel arrays of moments, and how many rows each."""

    due: Floats
    began: Floats
    """When the system began to read the newest of what they were made of; NaN if unknown."""
    at: Floats
    count: Floats

    def due_between(self, begin: float, end: float) -> Arrivals:
        """Those that were due between two moments."""
        chosen = (self.due >= begin) & (self.due <= end)
        return Arrivals(self.due[chosen], self.began[chosen], self.at[chosen], self.count[chosen])

    def event_latency(self) -> Spread | None:
        """By definitions 1 and 3."""
        return spread(self.at - self.due, self.count)

    def processing_latency(self) -> Spread | None:
        """By definitions 2 and 4."""
        known = np.isfinite(self.began)
        return spread(self.at[known] - self.began[known], self.count[known])


def arrivals(deliveries: Iterable[Delivered], feed: Feed) -> Arrivals:
    """All rows of some deliveries whose event times were generated."""
    parts = [_arrivals_of(query, group, feed) for query, group in _by_query(deliveries).items()]
    empty = np.empty(0)
    if not parts:
        return Arrivals(empty, empty, empty, empty)
    return Arrivals(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def median_latency(deliveries: Sequence[Delivered], feed: Feed) -> float | None:
    """Median event-time latency of some deliveries, for a look at how it goes."""
    events, at, count = _columns(deliveries)
    due = _due(events, at, feed)
    known = np.isfinite(due)
    figures = spread(at[known] - due[known], count[known])
    return None if figures is None else figures.p50


def spread(durations: Floats, counts: Floats | None = None) -> Spread | None:
    """Durations in figures, each counted as often as it occurred; None if there are none."""
    weights = np.ones(len(durations)) if counts is None else counts
    total = float(weights.sum())
    if total <= 0:
        return None
    order = np.argsort(durations)
    values, reached = durations[order], np.cumsum(weights[order])

    def quantile(share: float) -> float:
        return float(values[min(int(np.searchsorted(reached, share * total - _SIGNIFICANT)), len(values) - 1)])

    return Spread(
        count=total,
        average=float(np.average(durations, weights=weights)),
        least=float(values[0]),
        p50=quantile(0.5),
        p90=quantile(0.9),
        p95=quantile(0.95),
        p99=quantile(0.99),
        most=float(values[-1]),
    )


@dataclass(frozen=True, slots=True)
class Trend:
    """How a series of values goes."""

    slope: float
    """Median of the slopes between any two points (Theil and Sen): a few outliers do not move it."""
    score: float
    """How many standard deviations more of those slopes are above zero than chance would have it (Mann and Kendall)."""


def trend(moments: Floats, values: Floats) -> Trend:
    """The trend of a series; none at all for less than three points."""
    number = len(moments)
    if number < 3:
        return Trend(0.0, 0.0)
    first, second = np.triu_indices(number, 1)
    apart = moments[second] - moments[first]
    slopes = (values[second] - values[first])[apart > 0] / apart[apart > 0]
    if not len(slopes):
        return Trend(0.0, 0.0)
    more = np.count_nonzero(slopes > _SIGNIFICANT) - np.count_nonzero(slopes < -_SIGNIFICANT)
    deviation = math.sqrt(number * (number - 1) * (2 * number + 5) / 18)
    return Trend(float(np.median(slopes)), more / deviation)


def medians(moments: Floats, values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Of each second in which there are values, its mean moment and its median value, each as often as it occurred.

    Where there are only a few seconds they are cut into shorter pieces, a dozen of them.
    """
    if not len(moments):
        return np.empty(0), np.empty(0)
    width = min(1.0, max(float(np.ptp(moments)) / _PIECES, 1e-6))
    pieces = np.floor((moments - moments.min()) / width)
    points = []
    for piece in np.unique(pieces):
        chosen = pieces == piece
        figures = spread(values[chosen], counts[chosen])
        if figures is not None:
            points.append((np.average(moments[chosen], weights=counts[chosen]), figures.p50))
    found = np.array(points, np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _by_query(deliveries: Iterable[Delivered]) -> dict[str, list[Delivered]]:
    groups: dict[str, list[Delivered]] = {}
    for each in deliveries:
        groups.setdefault(each.query, []).append(each)
    return groups


def _arrivals_of(query: str, deliveries: Sequence[Delivered], feed: Feed) -> tuple[Floats, Floats, Floats, Floats]:
    events, at, count = _columns(deliveries)
    due = _due(events, at, feed)
    known = np.isfinite(due)
    return due[known], feed.begun(events, query)[known], at[known], count[known]


def _columns(deliveries: Sequence[Delivered]) -> tuple[Events, Floats, Floats]:
    events = np.array([event for each in deliveries for event, _ in each.newest], np.int64)
    count = np.array([count for each in deliveries for _, count in each.newest], np.float64)
    moments = np.array([each.at for each in deliveries], np.float64)
    return events, np.repeat(moments, [len(each.newest) for each in deliveries]), count


def _due(events: Events, at: Floats, feed: Feed) -> Floats:
    due, middle = feed.due(events), feed.due(events + RESOLUTION // 2)
    # The middle of a step may lie in a file that is not there yet, or that came after a break.
    return np.where(np.isfinite(due) & np.isfinite(middle) & (middle <= at), middle, due)
