"""What the optimizers know about the streams, as values that are always usable.

Rates are in tuples per second. Whatever is missing, negative, infinite or not a number is replaced: an optimizer must
have an answer before the first statistics arrive and whatever they say.
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
"""No rate, size or cost is larger: a sum of costs stays exact enough to compare plans."""
DEFAULT_RATE = 1000.0
DEFAULT_SELECTIVITY = {EQUAL: 0.01, "<>": 0.9}
"""Of a predicate nobody has measured, where distinct keys do not tell either."""
DEFAULT_COMPARISON_SELECTIVITY = 1 / 3
"""Of <, <=, > and >=, as textbooks have it."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Measured or assumed properties of the streams; every map may be incomplete."""

    rates: Mapping[JoinInput, float] = field(default_factory=dict)
    """Tuples per second after selection."""
    selectivities: Mapping[Predicate, float] = field(default_factory=dict)
    """Fraction of all pairs for which the predicate holds."""
    distinct_keys: Mapping[Attribute, float] = field(default_factory=dict)
    tasks: Mapping[JoinInput, int] = field(default_factory=dict)
    """Over how many tasks the relation's store is spread, where it is not the cost model's default."""
    history: timedelta = timedelta(hours=1)
    """How much an unbounded window is taken to hold."""
    kept: Mapping[JoinInput, timedelta | None] = field(default_factory=dict)
    """How long tuples of a relation are kept, where its window does not say; None is for ever."""

    def rate(self, of: JoinInput) -> float:
        """Tuples per second, finite and not negative."""
        return usable(self.rates.get(of), DEFAULT_RATE)

    def window_seconds(self, of: JoinInput) -> float:
        """How long a tuple is kept."""
        length = self.kept[of] or self.history if of in self.kept else _kept(of.window, self.history)
        return usable(length.total_seconds(), 1.0)

    def stored(self, of: JoinInput) -> float:
        """Tuples in the relation's store."""
        return min(LARGEST, self.rate(of) * self.window_seconds(of))

    def selectivity(self, of: Predicate) -> float:
        """Between 0 and 1; without a measurement 1/(the larger number of distinct keys), or a default."""
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
    """What is minimized: tuples sent to stores per second, plus a price for what stores hold."""

    tasks: int = 4
    """Over how many tasks a store is spread: a probe that does not know the partitioning attribute visits all."""
    storage_price: float = 0.1
    """What keeping one tuple stored costs, in tuples sent per second."""
    intermediates: bool = True
    """Whether results of joins may be stored."""
    largest_intermediate: int = 1 << 30
    """Relations in a stored result, at most."""
    input_price: float | None = None
    """What keeping one tuple of a relation's own store costs, if it is not the same: nothing where it is kept with all
    its indexes in any case."""
    sliding: bool = False
    """Whether a new tuple finds full windows. In the papers windows fill up, so that of the tuples of a result each is
    the latest in its share of the cases (the factors ½, ⅓ …); behind a sliding window there is always all of it."""

    def __post_init__(self) -> None:
        prices = (self.storage_price, self.storage_price if self.input_price is None else self.input_price)
        if self.tasks < 1 or not all(0 <= price < math.inf for price in prices):
            raise ValueError("a cost model needs a task and a price that is finite and not negative")


def usable(value: float | None, default: float) -> float:
    """A finite number from 0 to `LARGEST`, whatever was measured."""
    if value is None or math.isnan(value):
        return default
    return min(LARGEST, max(0.0, value))


def distinct_keys(rows: int, distinct: int) -> float:
    """How many keys there are, if so many different ones were among so many rows, all keys being equally frequent."""
    if distinct <= 0:
        return 0.0
    low, high = float(distinct), LARGEST
    for _ in range(60):  # expected distinct keys grow with the number of keys
        middle = math.sqrt(low * high)
        if -middle * math.expm1(-rows / middle) < distinct:
            low = middle
        else:
            high = middle
    # All different: of more keys than a collision would be likely among, we know nothing.
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
