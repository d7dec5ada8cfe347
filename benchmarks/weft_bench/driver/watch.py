"""Memory and processor time of a system: of its process and all its descendants."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType

import psutil

from weft_bench.memory import MemoryWatch, process_tree


@dataclass(frozen=True, slots=True)
class Usage:
    """What a system uses at a moment."""

    at: float
    memory: int
    """Bytes, shared pages counted once."""
    cores: float
    """Cores' worth of processor time since the reading before."""


class Watch:
    """Watches the tree below `pid` inside a `with`; `reading` is to be called about once per second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._memory = MemoryWatch(pid)
        self._at = time.time()
        self._seconds = 0.0

    def __enter__(self) -> Watch:
        self._memory.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.__exit__(kind, error, trace)

    @property
    def peak(self) -> int:
        """The most memory so far, in bytes."""
        return self._memory.pss

    def reading(self) -> Usage:
        """What it uses now."""
        now, seconds = time.time(), processor_seconds(self._pid)
        # A descendant that is gone takes its time with it, unless its parent has waited for it.
        used = max(seconds - self._seconds, 0.0) / max(now - self._at, 1e-3)
        self._at, self._seconds = now, seconds
        memory = self._memory.samples[-1][1] if self._memory.samples else 0
        return Usage(now, memory, used)


def processor_seconds(pid: int) -> float:
    """Processor time that a process and its descendants have used so far."""
    return sum(_seconds(process) for process in process_tree(pid))


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
