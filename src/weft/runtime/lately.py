"""What was made lately and will be wanted again: bounded in bytes, and the longest unused goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Lately(Generic[_Value]):
    """Values by key; may be used from any thread. What is larger than all together may be is not kept."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[_Value, int]] = OrderedDict()
        self.bytes = 0
        """What is kept takes about so many."""

    def get(self, key: Hashable) -> _Value | None:
        """What is kept under a key, which is in use again."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: _Value, size: int) -> None:
        """Keep a value of about so many bytes, in place of those that were not used for longest."""
        if size > self._most:
            return
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self._kept[key] = (value, size)
            self.bytes += size - before
            while self.bytes > self._most:
                _, (_, gone) = self._kept.popitem(last=False)
                self.bytes -= gone
