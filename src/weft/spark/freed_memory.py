"""Freed memory goes back to the system now and then.

glibc keeps what a program frees in arenas, each for some of its threads, and gives little of it back. A process with
many threads that come and go, as an engine with its readers and sinks, seems to grow for hours although it uses no more
than before.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import pyarrow as pa

EVERY_SECONDS = 60.0
_lock = threading.Lock()
_last = 0.0


def _trim_function() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library, which has its own ways
        return None
    return found


_trim = _trim_function()


def give_memory_back(*, clock: Callable[[], float] = time.monotonic) -> bool:
    """Give freed memory back, if that was not done within the last minute; whether it was done now."""
    global _last  # noqa: PLW0603
    now = clock()
    with _lock:
        if _trim is None or now - _last < EVERY_SECONDS:
            return False
        _last = now
    pa.default_memory_pool().release_unused()
    _trim(0)
    return True
