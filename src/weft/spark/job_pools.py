"""Spark jobs that can be cancelled, and who goes first: batches before reads, and reads never on all cores."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from pyspark import SparkContext

from weft.errors import ReadTimeout

BATCHES, READS = "weft-batches", "weft-reads"
"""Pools of Spark's fair scheduler. Where another scheduler runs, they mean nothing and do no harm."""
FAIR = {
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": Path(__file__).with_name("fairscheduler.xml").as_uri(),
}
"""Settings of a Spark that weft starts itself."""
READ_LIMIT = 60.0
"""Seconds that Spark may take for a piece of a query's rows, unless told."""
CANCEL_AGAIN = 0.2
"""Seconds after which jobs are cancelled once more: the next one may have been just about to start."""
_KILLED_AFTER = 5.0
"""Seconds in which Spark has killed a Python worker that does not return, counted from when its job was cancelled: for
so long a core is still in use."""
_POOL = "spark.scheduler.pool"
_INTERRUPT = "spark.job.interruptOnCancel"
_Found = TypeVar("_Found")
_shorter: ContextVar[float | None] = ContextVar("weft_read_limit", default=None)


@contextmanager
def marked(context: SparkContext, tag: str, pool: str) -> Iterator[None]:
    """Let the jobs of this thread be found by a tag, be interrupted when they are cancelled, and belong to a pool."""
    before: dict[str, Any] = {name: context.getLocalProperty(name) for name in (_INTERRUPT, _POOL)}
    try:
        context.addJobTag(tag)
        context.setInterruptOnCancel(True)
        context.setLocalProperty(_POOL, pool)
        yield
    finally:
        context.removeJobTag(tag)
        for name, value in before.items():  # None takes it away again
            context.setLocalProperty(name, value)


@contextmanager
def shorter_reads(seconds: float) -> Iterator[None]:
    """What this thread reads may take at most so long, whatever the engine's own limit is."""
    token = _shorter.set(seconds)
    try:
        yield
    finally:
        _shorter.reset(token)


class Turns:
    """Cores that reads may use at once; safe to ask from any thread.

    Spark takes no core away from a task that runs, so whatever batches are promised, a read on every core would hold
    them up for as long as it takes.
    """

    def __init__(self, cores: int) -> None:
        self._most = self._free = max(1, cores // 2)
        self._changed = threading.Condition()

    def of_one(self, tasks: int) -> int:
        """How many of so many tasks one read may run at once: there is room for another beside it, if there can be."""
        return max(1, min(tasks, self._most // 2))

    def take(self, tasks: int, seconds: float) -> None:
        """Use so many cores until they are given back; raises ReadTimeout if they are not free in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._free >= tasks, seconds):
                raise _too_long(seconds, "Other reads had the cores that there are for reading.")
            self._free -= tasks

    def give_back(self, tasks: int) -> None:
        """Use so many cores no more."""
        with self._changed:
            self._free += tasks
            self._changed.notify_all()


_turns: WeakKeyDictionary[SparkContext, Turns] = WeakKeyDictionary()
_turns_lock = threading.Lock()


def turns_of(context: SparkContext) -> Turns:
    """The turns of all who read on a Spark."""
    with _turns_lock:
        found = _turns.get(context)
        if found is None:
            found = _turns[context] = Turns(context.defaultParallelism)
        return found


def run_read(context: SparkContext, read: Callable[[], _Found], *, tasks: int, within: float) -> _Found:
    """What `read` returns, which runs jobs of so many tasks on Spark in this thread; raises ReadTimeout.

    Waiting for a turn may take as long as reading itself. A job that takes longer is cancelled. The query is not to
    blame for that: batches go first, and how much there is to read and how busy the machine is count as well.
    """
    shorter = _shorter.get()
    seconds = within if shorter is None else min(within, shorter)
    tag = f"weft-read-{uuid4().hex}"
    done, late = threading.Event(), threading.Event()

    def cancel() -> None:
        deadline = time.monotonic() + READ_LIMIT
        late.set()
        while not done.is_set() and time.monotonic() < deadline:
            context.cancelJobsWithTag(tag)
            done.wait(CANCEL_AGAIN)

    turns = turns_of(context)
    turns.take(tasks, seconds)
    timer = _timer(seconds, cancel)
    try:
        with marked(context, tag, READS):
            timer.start()
            return read()
    except Exception as error:
        if not late.is_set():
            raise
        raise _too_long(seconds, "Spark was still computing its SELECT list or HAVING.") from error
    finally:
        done.set()
        timer.cancel()
        if late.is_set():
            _timer(_KILLED_AFTER, lambda: turns.give_back(tasks)).start()
        else:
            turns.give_back(tasks)


def _timer(seconds: float, call: Callable[[], None]) -> threading.Timer:
    made = threading.Timer(seconds, call)
    made.daemon = True
    return made


def _too_long(seconds: float, why: str) -> ReadTimeout:
    return ReadTimeout(
        f"reading rows took longer than {seconds:g} seconds and was broken off",
        detail=f"{why} Batches go first. The query goes on, and its rows are kept.",
        hint="Read again when less is going on, compute less in its SELECT list, or set read_limit to more.",
    )
