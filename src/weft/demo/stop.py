"""Ctrl-C as a request: the first ends the demo with its summary, the second at once."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType


class StopSignal:
    """Takes over SIGINT and SIGTERM until `restore`.

    To be made after Spark is started, whose own handler would cancel the running batch.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in self._before:
            signal.signal(number, self._handle)

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until somebody wants an end; whether somebody does."""
        return self._asked.wait(seconds)

    def pause(self, seconds: float) -> None:
        """Wait so long, whoever wants what."""
        time.sleep(seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()
