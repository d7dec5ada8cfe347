"""The end of the process, in bounded time whatever still runs in it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable

HARD = 9
"""Exit status of a process that had to be ended because it did not stop in time."""
_log = logging.getLogger("weft.service")


class Ending:
    """Ends the process after a while if it has not ended by itself: a thread that never returns cannot hold it up.

    What is committed is on disk, so nothing is lost by it.
    """

    def __init__(self, *, last: Callable[[], object] = lambda: None, leave: Callable[[int], object] = os._exit) -> None:
        """`last` is called before the process ends."""
        self._last, self._leave = last, leave
        self._changed = threading.Condition()
        self._deadline, self._status, self._reason = 0.0, HARD, ""
        self._thread: threading.Thread | None = None

    def within(self, seconds: float, *, status: int = HARD, reason: str = "") -> None:
        """From now on the process has so long; a later call counts instead of an earlier one."""
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
