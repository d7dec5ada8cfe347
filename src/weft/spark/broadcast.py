"""Programs and tasks on their way to Spark's workers.

What is large goes as a broadcast that weft destroys itself. PySpark makes one of every closure beyond a megabyte as
well, but leaves its file in Spark's temporary folder for as long as Spark lives.
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark import Broadcast, SparkContext

from weft.execution.program import BatchTask, Program

_log = logging.getLogger("weft")
_INLINE = 256 << 10
"""Bytes of a task that go in the closure of each stage. A broadcast takes some milliseconds, so small ones do."""

_opened: tuple[str, BatchTask] | None = None
"""In a worker: the task of the batch that it worked for last."""


@dataclass(frozen=True, slots=True)
class SentTask:
    """A batch's task as its stages carry it; every worker opens it once."""

    key: str
    value: bytes | Broadcast[bytes]

    def open(self) -> BatchTask:
        """The task, in a worker."""
        global _opened  # noqa: PLW0603
        known = _opened
        if known is None or known[0] != self.key:
            data = self.value.value if isinstance(self.value, Broadcast) else self.value
            _opened = known = (self.key, pickle.loads(data))
        return known[1]


@contextmanager
def sending(context: SparkContext, task: BatchTask) -> Iterator[SentTask]:
    """A task for the workers; nothing of it is left behind at the end, whatever happens."""
    data = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
    if len(data) <= _INLINE:
        yield SentTask(uuid4().hex, data)
        return
    broadcast = context.broadcast(data)
    try:
        yield SentTask(uuid4().hex, broadcast)
    finally:
        _destroy(broadcast)


class SentProgram:
    """The program on the executors: it goes there once and stays until another one takes its place.

    Batches run one after the other, so nobody uses a program any more when the next one is asked for.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._program: Program | None = None
        self._broadcast: Broadcast[Program] | None = None

    def of(self, program: Program) -> Broadcast[Program]:
        """This program as the workers find it."""
        with self._lock:
            if self._broadcast is None or self._program is not program:
                old, self._broadcast = self._broadcast, self._context.broadcast(program)
                self._program = program
                if old is not None:
                    _destroy(old)
            return self._broadcast

    def close(self) -> None:
        """Take it back from the executors; harmless when repeated."""
        with self._lock:
            old, self._broadcast, self._program = self._broadcast, None, None
            if old is not None:
                _destroy(old)


def _destroy(broadcast: Broadcast[Any]) -> None:
    """Remove a broadcast and its file; that this fails must not hide why a batch has failed."""
    try:
        broadcast.destroy()
    except Exception as error:
        _log.warning("a broadcast was not removed from Spark: %s", type(error).__name__)
        path = getattr(broadcast, "_path", None)
        if path is not None and os.path.exists(path):
            os.unlink(path)
