"""A span of time in which Ctrl-C waits: what is written to disk and what is known in memory must change together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let signals whose handlers are Python functions, which may raise, wait until the end of the block.

    Python calls such handlers in the main thread only, so elsewhere nothing is to be done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    handlers: dict[int, Any] = {}
    try:
        for number in _SIGNALS:
            if callable(handler := signal.getsignal(number)):
                handlers[number] = handler
                signal.signal(number, lambda number, frame: waiting.append((number, frame)))
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for each, frame in waiting:
            handlers[each](each, frame)
