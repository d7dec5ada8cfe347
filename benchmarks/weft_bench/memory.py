"""Peak memory of a process and all its descendants, sampled while they run."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import psutil

INTERVAL = 0.25
_PSS_EVERY = 4
"""Shared pages are told apart by walking page tables: every second is enough, and does not disturb."""


class MemoryWatch:
    """Watches the tree below `pid` inside a `with`; afterwards `rss` and `pss` are the peaks in bytes.

    `samples` is the course of the latter: moments in seconds since 1970 and bytes.
    """

    def __init__(self, pid: int) -> None:
        self.rss = 0
        self.pss = 0
        self.samples: list[tuple[float, int]] = []
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        turn = 0
        while True:
            tree = process_tree(self._pid)
            self.rss = max(self.rss, sum(_rss(process) for process in tree))
            if turn % _PSS_EVERY == 0:
                size = sum(_pss(process) for process in tree)
                self.samples.append((time.time(), size))
                self.pss = max(self.pss, size)
            turn += 1
            if self._stop.wait(INTERVAL):
                return


def process_tree(pid: int) -> list[psutil.Process]:
    """The process and all its descendants that are alive."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end_tree(pid: int, patience: float = 5.0) -> None:
    """Ask a process and its descendants to end, and make those end that do not in `patience` seconds."""
    tree = process_tree(pid)
    for ask in (psutil.Process.terminate, psutil.Process.kill):
        for process in tree:
            try:
                ask(process)
            except psutil.NoSuchProcess:
                continue
        _, tree = psutil.wait_procs(tree, timeout=patience)


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _pss(process: psutil.Process) -> int:
    try:
        info = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(info, "pss", info.uss))  # only Linux knows the proportional size
