"""A system under test as the driver holds it: a child process that speaks `messages`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from weft_bench.driver.child import Child, ChildEnded
from weft_bench.driver.messages import Answer, Command, Failed, Order, Stop, from_line, to_line

_EXIT_SECONDS = 2.0
_NOISE_LINES = 200
"""Lines that are no messages and are kept, for errors."""


class System:
    """Starts a system with an order; its answers go to `hear`, and its end, if nobody asked for it, as `Failed`."""

    def __init__(
        self,
        command: Sequence[str],
        order: Order,
        *,
        environment: Mapping[str, str],
        log: Path,
        hear: Callable[[Answer], None],
    ) -> None:
        self._hear = hear
        self._stopping = threading.Event()
        self._noise: list[str] = []
        self._child = Child(command, environment=environment, log=log, hear=self._line, ended=self._ended)
        with contextlib.suppress(ChildEnded):  # `_ended` says why
            self.send(order)

    @property
    def pid(self) -> int:
        """Of the process at the top."""
        return self._child.pid

    def send(self, command: Command) -> None:
        """Say something to the system; raises ChildEnded if it has ended."""
        self._child.send(to_line(command))

    def stop(self, patience: float) -> bool:
        """Ask it to end, and end what is left of it after so many seconds; whether it ended in good order."""
        self._stopping.set()
        status = None
        try:
            if patience > 0:
                self.send(Stop())
                status = self._child.status(patience)
        except ChildEnded:
            status = self._child.status()
        finally:
            self._child.end()
        return status == 0

    def _line(self, line: str) -> None:
        try:
            message = from_line(line)
        except (ValueError, TypeError, KeyError) as error:
            self._hear(Failed(f"the system said what nobody understands: {error}"))
            return
        if message is None:
            self._noise = [*self._noise[-_NOISE_LINES:], line]
        elif isinstance(message, get_args(Answer)):
            self._hear(message)

    def _ended(self) -> None:
        if self._stopping.is_set():
            return
        status = self._child.status(_EXIT_SECONDS)
        said = "\n".join(filter(None, (self._child.tail(), "\n".join(self._noise[-20:]))))
        how = "closed its output" if status is None else f"ended with status {status}"
        self._hear(Failed(f"the system {how}\n{said}".strip()))
