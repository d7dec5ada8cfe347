"""The progress of the batch thread (which runs batches), to detect that it hangs. Reading it never waits."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds within which a batch must end after it was given up. Any other step of the batch thread may exceed the time
limit of a batch by as much."""


class Progress:
    """The last progress of the batch thread, which records it. Any thread may read it without a lock."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._resting = False

    def note(self) -> None:
        """Record progress: an iteration of the loop has begun, or an attempt has begun or ended."""
        self._at = self._clock()
        self._resting = False

    def rest(self) -> None:
        """Record that the thread waits for its next iteration or for input, so that silence is no sign of hanging."""
        self._resting = True

    @property
    def silent_for(self) -> float:
        """Seconds since the last progress; 0 while the thread only waits."""
        return 0.0 if self._resting else max(0.0, self._clock() - self._at)
