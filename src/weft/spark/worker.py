"""What weft asks of a Python worker of Spark's while it works for weft, and how the worker is left behind."""

from __future__ import annotations

import gc
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.errors import InvalidSetting
from weft.spark.freed_memory import give_memory_back
from weft.spark.session import is_local, shares_workers

MEMORY_SETTING = "spark.weft.worker.memory"
_SHARE = 0.6
"""Of the machine's memory, for all workers that run at a time: the rest is for Java, the driver and files."""
_LEAST = 2 << 30
"""Arrow's allocator asks for a gigabyte before it needs it, and compiled code for some hundred megabytes."""
_SIZE = re.compile(r"(?P<number>\d+)\s*(?P<unit>[bkmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SETTLED = 4
_tasks_done = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """How a worker is set up for a task: it travels with every task."""

    memory: int | None = None
    """Bytes that it may allocate; 0 is without limit, None is a share of the machine's memory."""
    slots: int | None = None
    """How many tasks run at a time on its machine; None: as many as the machine has cores."""
    shared: bool = True
    """Whether code that is not weft's may run in it, too."""

    def limit(self) -> int:
        """Bytes that it may allocate; 0 is without limit."""
        if self.memory is not None:
            return self.memory
        return max(_LEAST, int(_SHARE * machine_memory() / max(1, self.slots or _cores())))


def worker_of(spark: SparkSession) -> Worker:
    """How the workers of a Spark are to be set up; raises InvalidSetting."""
    context = spark.sparkContext
    given = context._conf.get(MEMORY_SETTING, None)
    slots = context.defaultParallelism if is_local(context.master or "") else None
    return Worker(None if given is None else _to_bytes(given), slots, shares_workers(spark))


def _to_bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidSetting(
            f"{MEMORY_SETTING} is {text!r}", hint='Give a size such as "4g" or "800m", or "0" for no limit.'
        )
    return int(found["number"]) * _UNITS[found["unit"].lower()]


@contextmanager
def at_work(worker: Worker) -> Iterator[None]:
    """A task of weft's in this process: one thread for Arrow, since tasks are the parallelism, and bounded memory, so
    that a query which needs too much gets a MemoryError where the kernel would kill some process or other."""
    threads = pa.cpu_count()
    if threads != 1:
        pa.set_cpu_count(1)
    before = _limit_memory(worker.limit())
    try:
        yield
        if not worker.shared:
            _settle()
    finally:
        if before is not None:
            resource.setrlimit(resource.RLIMIT_DATA, before)
        if not worker.shared:
            give_memory_back()
        if worker.shared and threads != 1:
            pa.set_cpu_count(threads)


def _limit_memory(limit: int) -> tuple[int, int] | None:
    """Set the limit of allocated memory (mapped files do not count); what it was before, None if it stays."""
    if not limit:
        return None
    before = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    if any(bound <= limit for bound in bounds):
        return None
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    return before


def _settle() -> None:
    """After the first tasks all code is loaded and never becomes garbage: the collector, which PySpark runs after
    every task, need not look at it again."""
    global _tasks_done  # noqa: PLW0603
    _tasks_done += 1
    if _tasks_done <= _SETTLED:
        gc.collect()
        gc.freeze()


def machine_memory() -> int:
    """Bytes of memory that this machine or container has."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and int(text):
            found.append(int(text))
    return min(found)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
