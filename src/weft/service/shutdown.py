"""Ending the process within bounded time, whatever still runs in it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable

HARD = 9
"""Exit status of a process that did not stop in time."""
_log = logging.getLogger("weft.service")


class ExitDeadline:
    """A deadline that ends the process even if a thread never returns. Nothing is lost: committed rows are on disk."""

    def __init__(self, *, last: Callable[[], object] = lambda: None, leave: Callable[[int], object] = os._exit) -> None:
        """Prepare to call `last`, and then `leave` with the exit status, at the deadline."""
        self._last, self._leave = last, leave
        self._changed = threading.Condition()
        self._deadline, self._status, self._reason = 0.0, HARD, ""
        self._thread: threading.Thread | None = None

    def within(self, seconds: float, *, status: int = HARD, reason: str = "") -> None:
        """Set the deadline to `seconds` from now, with an exit status and a reason to log; replaces an earlier call."""
        with self._changed:
            self._deadline, self._status, self._reason = time.monotonic() + seconds, status, reason
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._wait, name="weft-ending", daemon=True)
                self._thread.start()

    def _wait(self) -> None:
        with self._changed:
            while (left := self._deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            status, reason = self._status, self._reason
        if reason:
            _log.error(f"process ended: {reason}", extra={"status": status})
        try:
            self._last()
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except Exception as error:
            _log.error(f"the end of the process was not orderly: {error}")
        finally:
            self._leave(status)
