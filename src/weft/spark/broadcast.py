"""Shipping of programs and tasks to Spark's workers.

Large values are sent as broadcasts that weft destroys. PySpark also turns every closure above a megabyte into a
broadcast, but leaves its file in Spark's temporary folder until Spark ends.
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
"""Tasks up to this many bytes are part of the closure of each stage, because a broadcast takes some milliseconds."""

_opened: tuple[str, BatchTask] | None = None
"""In a worker: the key of the last `SentTask` it opened, and the task."""


@dataclass(frozen=True, slots=True)
class SentTask:
    """A serialized `BatchTask` for the stages of a batch. Each worker deserializes it once."""

    key: str
    value: bytes | Broadcast[bytes]

    def open(self) -> BatchTask:
        """Return the task. Call in a worker."""
        global _opened  # noqa: PLW0603
        known = _opened
        if known is None or known[0] != self.key:
            data = self.value.value if isinstance(self.value, Broadcast) else self.value
            _opened = known = (self.key, pickle.loads(data))
        return known[1]


@contextmanager
def sending(context: SparkContext, task: BatchTask) -> Iterator[SentTask]:
    """Ship a task to the workers. Its broadcast, if it has one, is removed at the end of the block."""
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
    """The broadcast of the current program, sent to the executors once per program.

    Batches run one after the other, so no task uses the old program when the next one is requested.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._program: Program | None = None
        self._broadcast: Broadcast[Program] | None = None

    def of(self, program: Program) -> Broadcast[Program]:
        """Return the broadcast of a program, and replace the broadcast of another program."""
        with self._lock:
            if self._broadcast is None or self._program is not program:
                old, self._broadcast = self._broadcast, self._context.broadcast(program)
                self._program = program
                if old is not None:
                    _destroy(old)
            return self._broadcast

    def close(self) -> None:
        """Remove the program from the executors. Idempotent."""
        with self._lock:
            old, self._broadcast, self._program = self._broadcast, None, None
            if old is not None:
                _destroy(old)


def _destroy(broadcast: Broadcast[Any]) -> None:
    """Remove a broadcast and its file. Errors are only logged, so that they do not hide why a batch failed."""
    try:
        broadcast.destroy()
    except Exception as error:
        _log.warning("a broadcast was not removed from Spark: %s", type(error).__name__)
        path = getattr(broadcast, "_path", None)
        if path is not None and os.path.exists(path):
            os.unlink(path)
