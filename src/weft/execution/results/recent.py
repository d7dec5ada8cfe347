"""What was made lately and will be wanted again: bounded in bytes and in age, and the longest unused goes first."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")
UNUSED_SECONDS = 60.0
"""After which nobody is likely to ask for it again: whoever reads page by page has gone on, or away."""


class RecentCache(Generic[_Value]):
    """Values by key; may be used from any thread. What is larger than all together may be is not kept.

    What was not used for a minute goes with the next use of anything else: results that nobody reads any more take no
    memory, however large the bound is.
    """

    def __init__(self, most_bytes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most_bytes, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[_Value, int, float]] = OrderedDict()
        """With the size of each and when it was used last, the longest unused first."""
        self.bytes = 0
        """What is kept takes about so many."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> _Value | None:
        """What is kept under a key, which is in use again."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept[key] = (*found[:2], self._clock())
                self._kept.move_to_end(key)
            self._let_go()
            return None if found is None else found[0]

    def put(self, key: Hashable, value: _Value, size: int) -> None:
        """Keep a value of about so many bytes, in place of those that were not used for longest."""
        with self._lock:
            _, before, _ = self._kept.pop(key, (None, 0, 0.0))
            self.bytes -= before
            if size <= self._most:
                self._kept[key] = (value, size, self._clock())
                self.bytes += size
            self._let_go()

    def _let_go(self) -> None:
        unused = self._clock() - UNUSED_SECONDS
        while self._kept:
            _, size, used = next(iter(self._kept.values()))
            if self.bytes <= self._most and used >= unused:
                return
            self._kept.popitem(last=False)
            self.bytes -= size
