"""Reading results through Spark: only the rows that are asked for, and a clear word where they are gone or fail."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.errors import PythonException

import weft
from tests.spark.support import Place, steps
from tests.support.read_results import read_chunk
from weft import WeftError
from weft.execution.results.read import Chunk, Reading
from weft.spark import result_tables as projected

pytestmark = pytest.mark.spark


def _values(query: weft.Query, skip: int, limit: int) -> list[tuple[Any, ...]]:
    tables = list(query.rows(0, skip=skip, limit=limit))
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def test_a_range_of_computed_rows_is_computed_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    computed = engine.create("SELECT upper(name) AS name, v FROM a WHERE v <> 3")
    windows = engine.create("SELECT v + 1 AS v, window_start FROM a [RANGE 8 SECONDS SLIDE 2 SECONDS]")
    having = engine.create("SELECT k, COUNT(*) AS n FROM a [TUMBLE 10 SECONDS] GROUP BY k HAVING COUNT(*) > 1")
    place.put("a", *((n / 10, n % 7, n, f"n{n}") for n in range(40)), (100, 1, 1, None))
    steps(engine)
    asked: list[int] = []
    project = projected.read_results

    def counted(spark: Any, reading: Reading, chunks: Sequence[Chunk], outputs: Any, **options: Any) -> Any:
        asked.extend(read_chunk(reading, chunk).num_rows for chunk in chunks)
        return project(spark, reading, chunks, outputs, **options)

    monkeypatch.setattr(projected, "read_results", counted)
    for query in (computed, windows, having):
        every = _values(query, 0, 10_000)
        assert len(every) >= 6
        for skip, limit in ((0, 1), (3, 2), (len(every) - 1, 5), (len(every), 5)):
            asked.clear()
            assert _values(query, skip, limit) == every[skip : skip + limit]
            if query is not having:
                assert sum(asked) <= limit + 6, "the four windows of the first and of the last row are read together"
    assert [row for table in computed.tables(0, 9) for row in table.to_pylist()] == [
        {"name": name, "v": v} for name, v in _values(computed, 0, 10_000)
    ]


def test_a_frame_whose_files_are_gone_says_so(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create("SELECT v FROM a", name="mine")
    place.put("a", (0, 1, 1))
    steps(engine)
    frame = query.results()
    shutil.rmtree(place.state / "data")
    with pytest.raises(PythonException, match=r'rows of query "mine" are not kept any more \[results_gone\]'):
        frame.collect()


@pytest.mark.parametrize("dropped", [False, True])
def test_a_select_list_that_fails_is_the_querys_failure(place: Place, dropped: bool) -> None:
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=1)
    query = engine.create("SELECT 10 DIV v AS q FROM a", name="mine")
    for number in (5, 2, 0, 1):
        place.put("a", (10 - number, 1, number))
    steps(engine)
    if dropped:
        query.drop()
    tail = query.tail()
    found = [next(tail).q, next(tail).q]
    with pytest.raises(WeftError) as failed:
        next(tail)
    assert (found, failed.value.code, query.state) == ([2, 5], "query_failed", "failed")
    assert [row.q for row in query.results().collect()] == [2, 5]
