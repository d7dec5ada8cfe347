"""The search for the highest sustained rate as a pure function: from the attempts so far to the next, or the answer.

It looks for a sustained rate and one that is not, from a first guess on, upwards and downwards in growing steps, and
then halves (geometrically) what is between them until it is `width` wide. The answer is the highest rate that *was*
sustained, so the true one lies up to `width` above it. Where attempts contradict each other the higher success counts:
a system that fell behind at less was disturbed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft_bench.driver.sustained import Outcome

_FIRST = 0.95
"""Of the guess: what a system passes from a full queue is a little more than it sustains."""
_UP = (1.08, 1.15, 1.25, 1.4)
_DOWN = (0.9, 0.8, 0.65, 0.5)
"""Steps while one side is missing; the last again and again."""
_SAME = 1.001


@dataclass(frozen=True, slots=True)
class Range:
    """Where to search, and how well."""

    guess: float
    width: float = 0.05
    least: float = 1.0
    """A system that cannot keep up with it has no sustainable rate."""
    most: float = math.inf
    attempts: int = 14


@dataclass(frozen=True, slots=True)
class Trial:
    """A rate that was tried."""

    rate: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Try:
    """Try this rate next."""

    rate: float


@dataclass(frozen=True, slots=True)
class Found:
    """The highest sustained rate; `why` says what keeps it from being within `width` of the true one."""

    rate: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class NotFound:
    """No rate was sustained."""

    why: str


Step = Try | Found | NotFound


def next_step(where: Range, trials: Sequence[Trial]) -> Step:
    """The next rate to try, or the answer."""
    low = max((trial.rate for trial in trials if trial.outcome is Outcome.SUSTAINED), default=None)
    above = [trial for trial in trials if trial.outcome is not Outcome.SUSTAINED and trial.rate > (low or 0.0)]
    lone = _lone_invalid(above)
    if len(trials) >= where.attempts:
        return _answer(low, f"not settled after {len(trials)} attempts")
    if lone is not None:
        return Try(lone)
    high = min(above, key=lambda trial: trial.rate, default=None)
    if low is None:
        return _downwards(where, high, len(trials))
    if high is None:
        return _upwards(where, low, trials)
    if high.rate <= low * (1 + where.width):
        limited = "the generator could not make more" if high.outcome is Outcome.INVALID else ""
        return Found(low, limited)
    return Try(math.sqrt(low * high.rate))


def _lone_invalid(trials: Sequence[Trial]) -> float | None:
    """A rate at which an attempt said nothing, once: the machine may have been busy with something else."""
    invalid = [trial.rate for trial in trials if trial.outcome is Outcome.INVALID]
    return next((rate for rate in invalid if sum(rate / _SAME < each < rate * _SAME for each in invalid) == 1), None)


def _downwards(where: Range, high: Trial | None, tried: int) -> Step:
    if high is None:
        return Try(min(max(where.guess * _FIRST, where.least), where.most))
    if high.rate <= where.least:
        why = "the generator could not make" if high.outcome is Outcome.INVALID else "could not keep up with"
        return NotFound(f"{why} the least rate of {where.least:.0f} rows per second")
    return Try(max(high.rate * _DOWN[min(tried - 1, len(_DOWN) - 1)], where.least))


def _upwards(where: Range, low: float, trials: Sequence[Trial]) -> Step:
    if low >= where.most:
        return Found(low, "not tried beyond")
    steps = sum(trial.outcome is Outcome.SUSTAINED for trial in trials)
    return Try(min(low * _UP[min(steps - 1, len(_UP) - 1)], where.most))


def _answer(low: float | None, why: str) -> Found | NotFound:
    return NotFound(why) if low is None else Found(low, why)
