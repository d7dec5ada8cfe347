"""Who is reading which results: files of a batch stay for as long as somebody reads them, but not for ever.

Trimming first raises the floor: from then on nobody can begin to read what lies below it. Its files go when those who
had begun before are done, or have taken too long. So readers that come one after the other cannot keep old results.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.engine.ledger import Ledger

LONGEST = 600.0
"""Seconds that somebody may take for a batch before its files go anyway."""
GRACE = 60.0
"""Seconds for which files stay for a DataFrame: when it is read, and whether, only Spark knows."""

_FEW = 64


def first_result(core: Ledger) -> int:
    """The first batch whose results are there."""
    with core.lock:
        first = core.inventory.first_result
        return core.next_batch if first is None else first


def kept_from(core: Ledger) -> int:
    """The first batch whose results may be read; earlier ones are gone, or are about to."""
    with core.lock:
        return max(first_result(core), core.leases.floor)


class Lease:
    """The results from batch `first` on, held until it is released or too old."""

    def __init__(self, leases: Leases, first: int, seconds: float) -> None:
        self._leases, self._seconds = leases, seconds
        self.first = first
        self.deadline = time.monotonic() + seconds

    def move(self, first: int) -> None:
        """Hold what comes from `first` on only, for as long again."""
        self.first, self.deadline = max(self.first, first), time.monotonic() + self._seconds

    @property
    def holds(self) -> bool:
        """Whether what it is for is certain to be there."""
        return time.monotonic() < self.deadline

    def release(self) -> None:
        """Let go; harmless when repeated."""
        self._leases.release(self)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Leases:
    """All of an engine. To take one, and to trim, belongs under the core's lock; to let go may happen anywhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[Lease] = set()
        self._many = _FEW
        """How many there are when those that are too old are looked for next: not everybody looks at all of them."""
        self.floor = 0
        """The first batch that somebody may begin to read."""

    def take(self, first: int, *, seconds: float | None = None) -> Lease:
        """Hold the results from batch `first` on, for at most `seconds` without a sign of life."""
        lease = Lease(self, first, LONGEST if seconds is None else seconds)
        with self._lock:
            # Those of DataFrames are never let go of, and where results are kept for ever nothing is trimmed.
            if len(self._held) >= self._many:
                self._held = {lease for lease in self._held if lease.holds}
                self._many = max(_FEW, 2 * len(self._held))
            self._held.add(lease)
        return lease

    def release(self, lease: Lease) -> None:
        """Let go of results."""
        with self._lock:
            self._held.discard(lease)

    def limit(self, before: int) -> int:
        """Nobody may begin to read what is before batch `before`; returns up to where nobody is reading it still."""
        with self._lock:
            self.floor = max(self.floor, before)
            self._held = {lease for lease in self._held if lease.holds}
            return min((before, *(lease.first for lease in self._held)))
