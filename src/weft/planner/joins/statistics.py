"""Statistics and the cost model of the join optimizers.

Rates are in rows per second. Missing, negative, infinite and NaN values are replaced: an optimizer must find a plan
before the first statistics arrive, and for any statistics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import assert_never

from weft.plan.window import Range, Session, Sliding, Unbounded, Window
from weft.planner.joins.graph import EQUAL, Attribute, JoinInput, Predicate

LARGEST = 1e12
"""The limit of every rate, size and cost, so that sums of costs stay exact enough to compare plans."""
DEFAULT_RATE = 1000.0
DEFAULT_SELECTIVITY = {EQUAL: 0.01, "<>": 0.9}
"""The selectivity of a predicate that is not measured and whose distinct keys are unknown."""
DEFAULT_COMPARISON_SELECTIVITY = 1 / 3
"""The textbook selectivity of <, <=, > and >=."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Measured or assumed properties of the streams; every mapping may be incomplete."""

    rates: Mapping[JoinInput, float] = field(default_factory=dict)
    """Rows per second after selection."""
    selectivities: Mapping[Predicate, float] = field(default_factory=dict)
    """The fraction of all pairs for which the predicate holds."""
    distinct_keys: Mapping[Attribute, float] = field(default_factory=dict)
    tasks: Mapping[JoinInput, int] = field(default_factory=dict)
    """The number of tasks of the relation's store, if it differs from `CostModel.tasks`."""
    history: timedelta = timedelta(hours=1)
    """The assumed length of an unbounded window."""
    kept: Mapping[JoinInput, timedelta | None] = field(default_factory=dict)
    """How long rows of a relation are kept, if that differs from the length of its window; None means forever."""

    def rate(self, of: JoinInput) -> float:
        """Return the relation's rows per second, finite and not negative."""
        return usable(self.rates.get(of), DEFAULT_RATE)

    def window_seconds(self, of: JoinInput) -> float:
        """Return how many seconds a row of the relation is kept."""
        length = self.kept[of] or self.history if of in self.kept else _kept(of.window, self.history)
        return usable(length.total_seconds(), 1.0)

    def stored(self, of: JoinInput) -> float:
        """Return the number of rows in the relation's store."""
        return min(LARGEST, self.rate(of) * self.window_seconds(of))

    def selectivity(self, of: Predicate) -> float:
        """Return the measured selectivity, else 1/(the larger number of distinct keys), else a default."""
        measured = self.selectivities.get(of)
        if measured is not None and not math.isnan(measured):
            return min(1.0, max(0.0, measured))
        if of.is_equality:
            keys = [usable(self.distinct_keys.get(side), 0.0) for side in (of.left, of.right)]
            if max(keys) >= 1:
                return 1 / max(keys)
        return DEFAULT_SELECTIVITY.get(of.comparison, DEFAULT_COMPARISON_SELECTIVITY)


@dataclass(frozen=True, slots=True)
class CostModel:
    """The cost to minimize: combinations (or single rows) sent to stores per second, plus a price for stored ones."""

    tasks: int = 4
    """The number of tasks of a store; a probe that does not know the partitioning attribute visits all of them."""
    storage_price: float = 0.1
    """The cost of storing one combination, in combinations sent per second."""
    intermediates: bool = True
    """Whether a plan may contain stored joins."""
    largest_intermediate: int = 1 << 30
    """The largest number of relations in a stored join."""
    input_price: float | None = None
    """The cost of storing one row of a relation, if it differs from `storage_price`: 0 if every plan stores the
    relation with all its indexes."""
    sliding: bool = False
    """Whether a new row finds full windows. In the papers windows fill up, so a row is the latest of a combination of n
    rows in 1/n of all cases (the factors ½, ⅓ …). Sliding windows are always full, so the factor is 1."""

    def __post_init__(self) -> None:
        prices = (self.storage_price, self.storage_price if self.input_price is None else self.input_price)
        if self.tasks < 1 or not all(0 <= price < math.inf for price in prices):
            raise ValueError("a cost model needs a task and a price that is finite and not negative")


def usable(value: float | None, default: float) -> float:
    """Return the value limited to the range from 0 to `LARGEST`; the default if the value is missing or NaN."""
    if value is None or math.isnan(value):
        return default
    return min(LARGEST, max(0.0, value))


def distinct_keys(rows: int, distinct: int) -> float:
    """Estimate how many keys exist if `rows` rows have `distinct` different keys and all keys are equally frequent."""
    if distinct <= 0:
        return 0.0
    low, high = float(distinct), LARGEST
    for _ in range(60):  # bisection: expected distinct keys grow with the number of keys
        middle = math.sqrt(low * high)
        if -middle * math.expm1(-rows / middle) < distinct:
            low = middle
        else:
            high = middle
    # If no two rows have the same key, there are probably at least rows²/2 keys; nothing is known beyond that.
    return min(low, max(float(distinct), rows * rows / 2))


def _kept(window: Window | None, history: timedelta) -> timedelta:
    match window:
        case None:
            return timedelta(seconds=1)
        case Sliding(size=size) | Range(size=size):
            return size
        case Session(gap=gap):
            return gap
        case Unbounded():
            return history
        case _:
            assert_never(window)
