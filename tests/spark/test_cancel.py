"""A batch that runs can be broken off from another thread, also if a worker never comes back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.support import wait_for
from weft.errors import BatchCancelled
from weft.spark.batch_job import BatchRunner
from weft.spark.session import own_session

pytestmark = pytest.mark.spark
Through = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def sleeping(flag: Path) -> Through:
    """A task that never ends: it tells its process and sleeps, unless the flag is taken away before."""

    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if flag.exists():
                (flag.parent / f"pid-{os.getpid()}").touch()
                while True:
                    time.sleep(3600)
            yield batch

    return through


def spinning(flag: Path) -> Through:
    """A task that never ends and never waits."""

    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            (flag.parent / f"pid-{os.getpid()}").touch()
            while flag.exists() or True:
                pass
            yield batch

    return through


def pids(folder: Path) -> list[int]:
    return [int(path.name.partition("-")[2]) for path in folder.glob("pid-*")]


@pytest.mark.parametrize("task", [sleeping, spinning])
def test_tasks_that_never_end(spark: SparkSession, tmp_path: Path, task: Callable[[Path], Through]) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    own = own_session(spark)
    runner = BatchRunner(own)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            with runner._cancellable("batch 7"):
                own.range(0, 2, 1, 2).mapInArrow(task(flag), "id long").collect()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: pids(tmp_path), "a task that runs")
    assert runner.cancel(timeout=60)
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(caught[0], BatchCancelled)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids(tmp_path)), "workers that are gone")
    assert own.range(3).count() == 3
    assert runner.cancel(), "nothing runs any more"


def test_jobs_of_others_go_on(spark: SparkSession) -> None:
    runner = BatchRunner(own_session(spark))
    with runner._cancellable("batch 7"):
        pass
    assert runner._tag not in spark.sparkContext.getJobTags()
    assert runner.cancel()
    assert spark.range(3).count() == 3


def test_between_two_jobs(spark: SparkSession) -> None:
    """A batch that starts its next job after it was cancelled is cancelled then."""
    own = own_session(spark)
    runner = BatchRunner(own)
    asked = threading.Event()
    caught: list[BaseException] = []

    def forever(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(3600)
            yield batch

    def run() -> None:
        try:
            with runner._cancellable("batch 7"):
                asked.set()
                wait_for(runner._cancelled.is_set, "a request to cancel")
                own.range(0, 2, 1, 2).mapInArrow(forever, "id long").collect()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    asked.wait()
    assert runner.cancel(timeout=60)
    thread.join(60)
    assert isinstance(caught[0], BatchCancelled)


def test_a_source_that_never_answers(spark: SparkSession, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    own = own_session(spark)
    frame = own.range(0, 1, 1, 1).mapInArrow(sleeping(flag), "id long")
    assert "in good time" in BatchRunner(own).source_error(frame, limit=1.0)
    flag.unlink()
    assert BatchRunner(own).source_error(frame) == ""
