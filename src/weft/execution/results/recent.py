"""A cache of recently used values, bounded in bytes and in age; the least recently used value is evicted first."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")
UNUSED_SECONDS = 60.0
"""Age at which an unused value is evicted: a client that reads page by page has read on or stopped by then."""


class RecentCache(Generic[_Value]):
    """Cached values by key. Thread-safe. A value larger than the bound of the whole cache is not kept.

    Every use of the cache evicts values that were not used for `UNUSED_SECONDS`, so results that are no longer read do
    not occupy memory, however large the bound is.
    """

    def __init__(self, most_bytes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most_bytes, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[_Value, int, float]] = OrderedDict()
        """(value, size, time of last use) by key, least recently used first."""
        self.bytes = 0
        """The approximate bytes of all kept values."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> _Value | None:
        """Return the value of a key, or None, and mark the value as used."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is not None:
                self._kept[key] = (*entry[:2], self._clock())
                self._kept.move_to_end(key)
            self._let_go()
            return None if entry is None else entry[0]

    def put(self, key: Hashable, value: _Value, size: int) -> None:
        """Keep a value of about `size` bytes; the least recently used values are evicted to make room."""
        with self._lock:
            _, before, _ = self._kept.pop(key, (None, 0, 0.0))
            self.bytes -= before
            if size <= self._most:
                self._kept[key] = (value, size, self._clock())
                self.bytes += size
            self._let_go()

    def _let_go(self) -> None:
        oldest = self._clock() - UNUSED_SECONDS
        while self._kept:
            _, size, last_use = next(iter(self._kept.values()))
            if self.bytes <= self._most and last_use >= oldest:
                return
            self._kept.popitem(last=False)
            self.bytes -= size
