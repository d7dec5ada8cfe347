"""A child process one talks to in lines, ended with all its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from weft_bench.memory import end_tree

_SEND_SECONDS = 30.0
_TAIL_BYTES = 4000


class ChildEnded(OSError):
    """A child process does not listen any more."""


class Child:
    """A process whose lines go to `hear`, in a thread of its own; `ended` is called after the last of them.

    It is the head of a session of its own: an interrupt from the terminal reaches only us, who then end it in order.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        hear: Callable[[str], None],
        ended: Callable[[], None],
    ) -> None:
        self._log = log
        self._hear = hear
        self._ended = ended
        self._sending = threading.Lock()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name=f"hear-{self.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process at the top."""
        return self._process.pid

    def send(self, line: str) -> None:
        """Say a line; raises ChildEnded if nobody listens."""
        if not self._sending.acquire(timeout=_SEND_SECONDS):
            raise ChildEnded(f"process {self.pid} reads no more")
        try:
            _pipe(self._process.stdin).write(line + "\n")
            _pipe(self._process.stdin).flush()
        except (OSError, ValueError) as error:
            raise ChildEnded(f"process {self.pid} has ended") from error
        finally:
            self._sending.release()

    def status(self, patience: float = 0.0) -> int | None:
        """The exit status; None if it still runs after `patience` seconds."""
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return None

    def tail(self) -> str:
        """The end of what it wrote to standard error and of lines nobody understood."""
        with self._log.open("rb") as log:
            log.seek(max(self._log.stat().st_size - _TAIL_BYTES, 0))
            return log.read().decode(errors="replace").strip()

    def end(self) -> None:
        """End it and all its descendants, now."""
        end_tree(self.pid)
        # Descendants of a process that ended by itself belong to nobody, but still to its session.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=5.0)
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                _pipe(pipe).close()

    def _read(self) -> None:
        try:
            for line in _pipe(self._process.stdout):
                self._hear(line.rstrip("\n"))
        except ValueError:
            return  # closed by `end`
        self._ended()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
