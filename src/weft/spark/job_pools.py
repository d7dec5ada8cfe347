"""Scheduling of Spark jobs: batches take precedence over reads, reads never use all cores and can be cancelled."""

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
"""Pools of Spark's fair scheduler. Other schedulers ignore them."""
FAIR = {
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": Path(__file__).with_name("fairscheduler.xml").as_uri(),
}
"""Scheduler settings for a Spark that weft starts."""
READ_LIMIT = 60.0
"""Default for the seconds that Spark may take for a piece of a query's rows."""
CANCEL_AGAIN = 0.2
"""Seconds between repeated cancellations, because another job may have been about to start."""
_KILLED_AFTER = 5.0
"""Seconds after a cancellation within which Spark kills a Python worker that does not return. Until then the worker
occupies a core."""
_POOL = "spark.scheduler.pool"
_INTERRUPT = "spark.job.interruptOnCancel"
_Found = TypeVar("_Found")
_shorter: ContextVar[float | None] = ContextVar("weft_read_limit", default=None)


@contextmanager
def marked(context: SparkContext, tag: str, pool: str) -> Iterator[None]:
    """Give the jobs of this thread a tag and a scheduler pool, and let cancellation interrupt them."""
    before: dict[str, Any] = {name: context.getLocalProperty(name) for name in (_INTERRUPT, _POOL)}
    try:
        context.addJobTag(tag)
        context.setInterruptOnCancel(True)
        context.setLocalProperty(_POOL, pool)
        yield
    finally:
        context.removeJobTag(tag)
        for name, value in before.items():  # None removes the property
            context.setLocalProperty(name, value)


@contextmanager
def shorter_reads(seconds: float) -> Iterator[None]:
    """Limit each read of this thread to `seconds`. A shorter limit of the engine still applies."""
    token = _shorter.set(seconds)
    try:
        yield
    finally:
        _shorter.reset(token)


class Turns:
    """The cores that reads may use at the same time. Thread-safe.

    Spark does not preempt running tasks, so reads on all cores would delay a batch regardless of scheduler pools.
    """

    def __init__(self, cores: int) -> None:
        self._most = self._free = max(1, cores // 2)
        self._changed = threading.Condition()

    def of_one(self, tasks: int) -> int:
        """Return how many of `tasks` one read may run at once. Where possible, that leaves cores for a second read."""
        return max(1, min(tasks, self._most // 2))

    def take(self, tasks: int, seconds: float) -> None:
        """Reserve a core per task until `give_back`. Raise ReadTimeout if they are not free within `seconds`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._free >= tasks, seconds):
                raise _too_long(seconds, "Other reads had the cores that there are for reading.")
            self._free -= tasks

    def give_back(self, tasks: int) -> None:
        """Release the reserved cores."""
        with self._changed:
            self._free += tasks
            self._changed.notify_all()


_turns: WeakKeyDictionary[SparkContext, Turns] = WeakKeyDictionary()
_turns_lock = threading.Lock()


def turns_of(context: SparkContext) -> Turns:
    """Return the `Turns` that all readers on a Spark context share."""
    with _turns_lock:
        turns = _turns.get(context)
        if turns is None:
            turns = _turns[context] = Turns(context.defaultParallelism)
        return turns


def run_read(context: SparkContext, read: Callable[[], _Found], *, tasks: int, within: float) -> _Found:
    """Call `read`, which runs Spark jobs of `tasks` tasks in this thread, and return its result.

    Raise ReadTimeout if the cores are not free within `within` seconds, or if `read` then takes longer than `within`
    seconds; its jobs are cancelled. A timeout is not the query's fault: it also depends on batches, which go first, on
    the amount of data and on the load of the machine.
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
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    return timer


def _too_long(seconds: float, why: str) -> ReadTimeout:
    return ReadTimeout(
        f"reading rows took longer than {seconds:g} seconds and was broken off",
        detail=f"{why} Batches go first. The query goes on, and its rows are kept.",
        hint="Read again when less is going on, compute less in its SELECT list, or set read_limit to more.",
    )
