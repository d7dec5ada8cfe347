"""Reading results that takes too long: the reader is told, the query and its rows stay, and batches go on meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.support import Place, steps, wait_for
from weft.errors import ReadTimeout
from weft.spark import job_pools as spark_jobs
from weft.spark import select_list as results

pytestmark = pytest.mark.spark


def asleep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(3600)
        yield batch


def test_slow_reads_end_and_hold_up_no_batch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, they took all cores for as long as they liked, and a batch had to wait for them."""
    engine = place.engine(read_limit="15 seconds")
    place.streams(engine, "a")
    query = engine.create("SELECT v + 1 AS v FROM a")
    place.put("a", (0, 1, 1))
    steps(engine)
    assert [row.v for row in query.tail()] == [2]
    frame = results.results_frame

    def slow(*arguments: Any, **options: Any) -> Any:
        made = frame(*arguments, **options)
        return made.mapInArrow(asleep, made.schema)

    monkeypatch.setattr(results, "results_frame", slow)
    told: list[ReadTimeout] = []

    def read() -> None:
        with pytest.raises(ReadTimeout) as late:
            list(query.tail())
        told.append(late.value)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for each in readers:
        each.start()
    time.sleep(1.0)
    place.put("a", (1, 1, 2))
    steps(engine)
    assert not told, "while a read has a core, the other is the batch's"
    for each in readers:
        each.join(60)
    assert len(told) == 3
    assert query.state == "live"
    monkeypatch.undo()
    wait_for(lambda: spark_jobs.turns_of(place.spark.sparkContext)._free, "its core is free again")
    assert [row.v for row in query.tail()] == [2, 3]
