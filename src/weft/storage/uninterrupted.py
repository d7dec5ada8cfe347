"""A context manager that defers signals while the disk and memory have to change together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer SIGINT and SIGTERM to the end of the block if their handlers are Python functions, which may raise.

    Python runs such handlers in the main thread only, so in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferred: list[tuple[int, FrameType | None]] = []
    handlers: dict[int, Any] = {}
    try:
        for number in _SIGNALS:
            if callable(handler := signal.getsignal(number)):
                handlers[number] = handler
                signal.signal(number, lambda number, frame: deferred.append((number, frame)))
        yield
    finally:
        for received, handler in handlers.items():
            signal.signal(received, handler)
        for received, frame in deferred:
            handlers[received](received, frame)
