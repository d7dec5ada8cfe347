"""How many rows to keep waiting so that a system never runs out of them, and never has to work them off for long."""

from __future__ import annotations

from dataclasses import dataclass, replace

SECONDS = 3.0
"""Of work to keep waiting: the middle between 2 and 4."""
_FIRST = 1 / 8
"""Of the guess: too few rows are soon mended, too many have to be worked off."""
_AT_LEAST = 1.0
"""Seconds from one change to the next."""
_LONG = 5.0
"""Seconds for what is taken at once; it is made to take longer only if that makes much of a difference."""
_FASTER, _MUCH_FASTER = 1.1, 1.5
_FILES = 12
"""What waits is in so many files."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Rows to keep waiting; what follows is what was seen since that number was last thought over.

    A system that takes all there is at once has to find as much again when it comes back: there are at least two such
    lumps waiting. One that gets faster with larger lumps is offered larger ones for as long as it does.
    """

    rows: float
    since: float
    passed: int
    best: float = 0.0
    """Rows per second at best so far."""
    seen: int = 0
    passes: int = 0
    lump: int = 0

    @property
    def file(self) -> float:
        """Rows of a file."""
        return max(self.rows / _FILES, 1.0)


def first_ahead(guess: float, now: float, passed: int) -> Ahead:
    """To begin with, from a guess of rows per second."""
    return Ahead(rows=max(guess * SECONDS * _FIRST, 1.0), since=now, passed=passed, seen=passed)


def next_ahead(ahead: Ahead, now: float, passed: int) -> Ahead:
    """After the slowest reader has come as far as `passed` rows."""
    if passed <= ahead.seen:
        return ahead
    seen = replace(ahead, seen=passed, passes=ahead.passes + 1, lump=max(ahead.lump, passed - ahead.seen))
    elapsed = now - ahead.since
    if seen.passes < 2 or elapsed < _AT_LEAST:
        return seen
    speed = (passed - ahead.passed) / elapsed
    long = elapsed / seen.passes > _LONG
    rows = max(SECONDS * speed, 2.0 * seen.lump)
    if speed > (_MUCH_FASTER if long else _FASTER) * ahead.best:
        rows = max(rows, 2 * ahead.rows)
    elif long:
        rows = min(rows, ahead.rows)
    return Ahead(max(rows, 1.0), since=now, passed=passed, best=max(ahead.best, speed), seen=passed)
