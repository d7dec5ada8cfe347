"""The generator as the driver holds it: a child process that speaks `releases`."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from weft_bench.driver.child import Child, ChildEnded
from weft_bench.driver.releases import (
    Answer,
    Command,
    End,
    GeneratorOrder,
    Prepared,
    Released,
    from_line,
    order_to_line,
    to_line,
)
from weft_bench.paths import package_folders


class Source:
    """Starts a generator; what it releases goes to `hear`, and its end, if nobody asked for it, to `failed`."""

    def __init__(
        self, order: GeneratorOrder, *, log: Path, hear: Callable[[Answer], None], failed: Callable[[str], None]
    ) -> None:
        self._hear = hear
        self._failed = failed
        self._stopping = threading.Event()
        self._child = Child(
            (sys.executable, "-m", "weft_bench.driver.generator"),
            # The workload has to be found there as it was here.
            environment={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), *package_folders()])},
            log=log,
            hear=self._line,
            ended=self._ended,
        )
        with contextlib.suppress(ChildEnded):  # `_ended` says why
            self._child.send(order_to_line(order))

    def send(self, command: Command) -> None:
        """Say something to the generator; raises ChildEnded if it has ended."""
        self._child.send(to_line(command))

    def stop(self, patience: float) -> None:
        """Ask it to end, and end it after so many seconds."""
        self._stopping.set()
        try:
            if patience > 0:
                with contextlib.suppress(ChildEnded):
                    self.send(End())
                    self._child.status(patience)
        finally:
            self._child.end()

    def _line(self, line: str) -> None:
        message = from_line(line)
        if isinstance(message, Prepared | Released):
            self._hear(message)

    def _ended(self) -> None:
        if not self._stopping.is_set():
            self._failed(f"the generator ended\n{self._child.tail()}".strip())
