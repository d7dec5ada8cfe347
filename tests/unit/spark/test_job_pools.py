"""Who may read through Spark at once, and for how long; without Spark."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from weft.errors import ReadTimeout
from weft.spark import job_pools as spark_jobs
from weft.spark.job_pools import READS, Turns, run_read, shorter_reads


class Context:
    """As much of a SparkContext as a read needs; a job of it ends when it is cancelled."""

    defaultParallelism = 2  # noqa: N815 as Spark calls it

    def __init__(self) -> None:
        self.properties: dict[str, Any] = {"spark.scheduler.pool": "of the user"}
        self.tags: set[str] = set()
        self.cancelled = threading.Event()

    def getLocalProperty(self, name: str) -> Any:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: Any) -> None:
        self.properties[name] = value

    def setInterruptOnCancel(self, value: bool) -> None:
        self.properties["spark.job.interruptOnCancel"] = value

    def addJobTag(self, tag: str) -> None:
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:
        if tag in self.tags:
            self.cancelled.set()

    def endless(self) -> None:
        assert self.cancelled.wait(30)
        raise RuntimeError("the job was cancelled")


@pytest.fixture
def context() -> Any:
    return Context()


@pytest.mark.parametrize(("cores", "tasks", "one", "most"), [(1, 9, 1, 1), (2, 9, 1, 1), (4, 9, 1, 2), (16, 9, 4, 8)])
def test_reads_leave_cores_to_batches(cores: int, tasks: int, one: int, most: int) -> None:
    turns = Turns(cores)
    assert turns.of_one(tasks) == one
    assert turns.of_one(1) == 1
    full = pytest.raises(ReadTimeout, match=r"longer than 0\.05 seconds")
    turns.take(most, 1.0)
    with full:
        turns.take(1, 0.05)
    turns.give_back(most)
    turns.take(most, 1.0)


def test_a_read_that_takes_too_long_is_cancelled(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_jobs, "_KILLED_AFTER", 0.2)
    with pytest.raises(ReadTimeout) as late:
        run_read(context, context.endless, tasks=1, within=0.05)
    assert "read_limit" in late.value.hint
    assert context.properties == {"spark.scheduler.pool": "of the user", "spark.job.interruptOnCancel": None}
    assert not context.tags
    with pytest.raises(ReadTimeout, match=r"0\.05 seconds"):  # its task has not ended yet
        run_read(context, lambda: None, tasks=1, within=0.05)
    assert run_read(context, lambda: context.properties["spark.scheduler.pool"], tasks=1, within=5) == READS


def test_who_waits_for_an_answer_waits_for_less(context: Any) -> None:
    with shorter_reads(0.05), pytest.raises(ReadTimeout, match=r"0\.05 seconds"):
        run_read(context, context.endless, tasks=1, within=60)


def test_another_error_stays_what_it_is(context: Any) -> None:
    def fails() -> None:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        run_read(context, fails, tasks=1, within=60)
