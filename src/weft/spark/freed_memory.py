"""Settings of the C library's allocator, and periodic return of freed memory to the operating system.

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
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of `mallopt`."""
_ARENAS = 2
_MAPPED_BYTES = 128 << 10
_lock = threading.Lock()
_last = 0.0


def _trim_function() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library than glibc
        return None
    return trim


_trim = _trim_function()


def limit_fragmentation() -> bool:
    """Make the allocator of this process return memory more readily; return whether it could be set.

    By default glibc gives threads up to eight arenas per core, and raises the size from which blocks are mapped on
    their own with every large block that is freed. Large short-lived blocks then lie in the arenas between long-lived
    small ones, and the memory between them cannot be returned. This is for a process that weft owns, before it starts
    threads.
    """
    try:
        mallopt: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library than glibc
        return False
    return bool(mallopt(_M_ARENA_MAX, _ARENAS)) and bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES))


def trim_memory(*, clock: Callable[[], float] = time.monotonic) -> bool:
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
