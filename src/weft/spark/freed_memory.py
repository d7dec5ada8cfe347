"""Periodic return of freed memory to the operating system.

glibc keeps freed memory in per-thread arenas and returns little of it. A process with many short-lived threads, such
as an engine with readers and sinks, seems to grow for hours although it uses no more memory.
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
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library than glibc
        return None
    return trim


_trim = _trim_function()


def give_memory_back(*, clock: Callable[[], float] = time.monotonic) -> bool:
    """Release freed memory to the system, at most once per `EVERY_SECONDS`. Return whether this call did so."""
    global _last  # noqa: PLW0603
    now = clock()
    with _lock:
        if _trim is None or now - _last < EVERY_SECONDS:
            return False
        _last = now
    pa.default_memory_pool().release_unused()
    _trim(0)
    return True
