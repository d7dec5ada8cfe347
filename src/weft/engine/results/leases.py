"""Leases on results: the files of a batch stay while somebody reads them, up to a time limit.

Trimming first raises the floor: from then on nobody can begin to read batches below it. Their files are removed when
the readers that began earlier are done or have taken too long. So a series of readers cannot keep old results for ever.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.engine.ledger import Ledger

LONGEST = 600.0
"""Seconds that a reader may take for a batch before its files are removed anyway."""
GRACE = 60.0
"""Seconds for which files stay for a DataFrame: only Spark knows whether and when it is read."""
_FEW = 64


def first_result(core: Ledger) -> int:
    """Return the first batch whose results are kept; the next batch if none are."""
    with core.lock:
        first = core.inventory.first_result
        return core.next_batch if first is None else first


def kept_from(core: Ledger) -> int:
    """Return the first batch whose results may be read. Earlier results are removed or about to be."""
    with core.lock:
        return max(first_result(core), core.leases.floor)


class Lease:
    """A hold on the results from batch `first` on, until it is released or expires."""

    def __init__(self, leases: Leases, first: int, seconds: float) -> None:
        self._leases, self._seconds = leases, seconds
        self.first = first
        self.deadline = time.monotonic() + seconds

    def move(self, first: int) -> None:
        """Hold only the results from batch `first` on, and restart the time limit."""
        self.first, self.deadline = max(self.first, first), time.monotonic() + self._seconds

    @property
    def holds(self) -> bool:
        """Whether the lease has not expired, so that its results are certain to exist."""
        return time.monotonic() < self.deadline

    def release(self) -> None:
        """Release the lease. Releasing it again has no effect."""
        self._leases.release(self)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Leases:
    """All leases of an engine. Take leases and trim under the core's lock; release them anywhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[Lease] = set()
        self._many = _FEW
        """Number of leases at which expired ones are removed next, so that not every `take` examines all leases."""
        self.floor = 0
        """The first batch that a reader may begin to read."""

    def take(self, first: int, *, seconds: float | None = None) -> Lease:
        """Return a lease on the results from batch `first` on, which expires after `seconds` without a `move`."""
        lease = Lease(self, first, LONGEST if seconds is None else seconds)
        with self._lock:
            # Leases of DataFrames are never released, and `limit` is not called if results are kept for ever.
            if len(self._held) >= self._many:
                self._held = {held for held in self._held if held.holds}
                self._many = max(_FEW, 2 * len(self._held))
            self._held.add(lease)
        return lease

    def release(self, lease: Lease) -> None:
        """Release a lease."""
        with self._lock:
            self._held.discard(lease)

    def limit(self, before: int) -> int:
        """Raise the floor to batch `before`. Return the batch, at most `before`, below which nobody is reading."""
        with self._lock:
            self.floor = max(self.floor, before)
            self._held = {lease for lease in self._held if lease.holds}
            return min((before, *(lease.first for lease in self._held)))
