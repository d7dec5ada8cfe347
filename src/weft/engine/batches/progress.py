"""Whether the thread that runs batches goes on, or hangs in something: known to anybody without waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds beyond the limit of a batch that the thread may take for one thing: those in which a batch that was given up
has to end."""


class Progress:
    """The time at which the thread last went on. That thread says so; any other may ask, and no lock is taken."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._resting = False

    def note(self) -> None:
        """It goes on: a turn of its loop has begun, or an attempt has begun or ended."""
        self._at = self._clock()
        self._resting = False

    def rest(self) -> None:
        """It only waits from here on, and cannot hang: until the next turn is due, or input arrives."""
        self._resting = True

    @property
    def silent_for(self) -> float:
        """Seconds that it has been busy with one and the same thing; 0 while it only waits."""
        return 0.0 if self._resting else max(0.0, self._clock() - self._at)
