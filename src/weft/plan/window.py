"""Windows on relations, and the distances in event time that they admit between the rows of a pair."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

_MICROSECOND = timedelta(microseconds=1)


def to_micros(duration: timedelta) -> int:
    """Return the duration in whole microseconds, the unit of event time."""
    return duration // _MICROSECOND


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows [k·slide, k·slide + size) for integers k, aligned to 1970; TUMBLE has slide = size."""

    size: timedelta
    slide: timedelta

    def __post_init__(self) -> None:
        if self.size <= timedelta(0) or self.slide <= timedelta(0):
            raise ValueError("window size and slide must be positive")


@dataclass(frozen=True, slots=True)
class Range:
    """A continuous window: a row qualifies if it is less than `size` older than the latest row of the combination."""

    size: timedelta

    def __post_init__(self) -> None:
        if self.size <= timedelta(0):
            raise ValueError("window size must be positive")


@dataclass(frozen=True, slots=True)
class Unbounded:
    """A window over the full history."""


@dataclass(frozen=True, slots=True)
class Session:
    """Windows [first, last + gap) over rows of one group (or join key), each closer than `gap` to the next.

    With `longest`, sessions are cut at multiples of `longest` since 1970: rows before and after such a multiple are
    never in one session, and no session is longer.
    """

    gap: timedelta
    longest: timedelta | None = None

    def __post_init__(self) -> None:
        if self.gap <= timedelta(0):
            raise ValueError("session gap must be positive")
        if self.longest is not None and self.longest < self.gap:
            raise ValueError("the longest session must not be shorter than the gap")

    @property
    def cut(self) -> int | None:
        """The distance between cuts in microseconds; None if sessions are never cut."""
        return None if self.longest is None else to_micros(self.longest)


Window = Sliding | Range | Unbounded | Session


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """The admissible distances t0 − t1 of a pair in microseconds, both ends included; None means no limit."""

    low: int | None
    high: int | None

    def intersect(self, other: TimeBounds) -> TimeBounds:
        """Return the distances that both bounds admit."""
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return TimeBounds(max(lows, default=None), min(highs, default=None))

    def reversed(self) -> TimeBounds:
        """Return the same condition as bounds of t1 − t0."""
        return TimeBounds(None if self.high is None else -self.high, None if self.low is None else -self.low)


EVERYTHING = TimeBounds(None, None)


def pair_bounds(first: Window, second: Window) -> TimeBounds:
    """Return the distances t0 − t1 that two windows admit (for sliding windows, a necessary condition)."""
    return TimeBounds(_reach(first, negative=True), _reach(second, negative=False))


def _reach(window: Window, *, negative: bool) -> int | None:
    if isinstance(window, Unbounded | Session):
        return None
    reach = to_micros(window.size) - 1
    return -reach if negative else reach


def window_text(window: Window) -> str:
    """Return the window as users write it in SQL."""
    match window:
        case Sliding(size=size, slide=slide) if size == slide:
            return f"[TUMBLE {duration_text(size)}]"
        case Sliding(size=size, slide=slide):
            return f"[RANGE {duration_text(size)} SLIDE {duration_text(slide)}]"
        case Range(size=size):
            return f"[RANGE {duration_text(size)}]"
        case Unbounded():
            return "[UNBOUNDED]"
        case Session(gap=gap, longest=longest):
            limit = "" if longest is None else f" MAX {duration_text(longest)}"
            return f"[SESSION {duration_text(gap)}{limit}]"


_UNITS = (("DAYS", 86_400_000_000), ("HOURS", 3_600_000_000), ("MINUTES", 60_000_000), ("SECONDS", 1_000_000),
          ("MILLISECONDS", 1000), ("MICROSECONDS", 1))  # fmt: skip


def duration_text(duration: timedelta) -> str:
    """Return the duration in the largest unit that gives a whole number."""
    micros = to_micros(duration)
    name, size = next((name, size) for name, size in _UNITS if micros % size == 0)
    return f"{micros // size} {name}"
