"""Faults that pass stay passing: only an expression of its own ends a query, never its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from tests.spark.support import DDL, Place, rows, steps
from weft.errors import OutOfMemory, WeftError, WorkerLost
from weft.spark.errors import to_user_error
from weft.spark.expression_errors import expression_error
from weft.spark.session import own_session
from weft.spark.worker import Worker, worker_limits

pytestmark = pytest.mark.spark
OPAQUE = "SELECT v FROM a WHERE upper(name) = 'N'"


def stream(place: Place, through: Callable[[Iterable[Any]], Iterator[Any]]) -> DataFrame:
    """A DataFrame stream whose rows go through a Python function of the user's."""
    (place.root / "a").mkdir(exist_ok=True)
    return place.spark.readStream.schema(DDL).parquet(str(place.root / "a")).mapInArrow(through, DDL)


def failing_times(root: Path, times: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Rows that cannot be read the first few times."""

    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(list(root.glob("failed-*"))) < times:
                (root / f"failed-{len(list(root.glob('failed-*')))}").touch()
                raise OSError("unmistakable cause")
            yield batch

    return through


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_source_that_fails_for_a_while_ends_no_query(place: Place, times: int) -> None:
    engine = place.engine()
    engine.stream("a", stream(place, failing_times(place.root, times)), time="ts")
    queries = [engine.create(sql) for sql in (OPAQUE, "SELECT v FROM a WHERE lower(name) = 'n'", "SELECT v FROM a")]
    place.put("a", (0, 1, 7, "n"))
    for _ in range(times):
        with suppress(WeftError):
            steps(engine)
    steps(engine)
    assert [query.state for query in queries] == ["live"] * 3
    assert [rows(query) for query in queries] == [[(7,)]] * 3


def test_an_expression_of_the_source_ends_no_query(place: Place) -> None:
    engine = place.engine()
    (place.root / "a").mkdir()
    frame = place.spark.readStream.schema(DDL).parquet(str(place.root / "a"))
    engine.stream("a", frame.selectExpr("ts", "k", "CAST(v / k AS INT) AS v", "name"), time="ts")
    query = engine.create(OPAQUE)
    place.put("a", (0, 0, 7, "n"))
    with pytest.raises(WeftError, match="DIVIDE_BY_ZERO"):
        engine.step()
    assert query.state == "live"


def test_the_same_text_on_another_stream_goes_on(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b")
    queries = {name: engine.create(f"SELECT v FROM {name} WHERE 10 / (length(name) - 1) > 0") for name in "ab"}
    keyed = engine.create("SELECT x.v FROM a [RANGE 9 SECONDS] x JOIN b [RANGE 9 SECONDS] y ON upper(x.name) = y.name")
    place.put("a", (0, 1, 1, "n"))
    place.put("b", (0, 1, 2, "nn"), (0, 1, 2, "abc"))
    steps(engine)
    assert queries["a"].state == "failed"
    assert "zero" in queries["a"].error.lower()
    assert (queries["b"].state, keyed.state) == ("live", "live")
    assert rows(queries["b"]) == [(2,), (2,)]


@pytest.mark.parametrize(
    "expression",
    [
        "1 / (id - 1)",
        "array(1, 2)[id + 1]",
        "element_at(array(1), CAST(id AS INT))",
        "CAST(concat('a', id) AS INT)",
        "CAST(id * 1000000 AS DECIMAL(5, 2))",
        "9223372036854775807L + id",
        "make_date(2020, CAST(id + 12 AS INT), 1)",
        "to_timestamp('x' || id, 'yyyy')",
        "map(id, 1, id, 2)",
        "('a' || id) RLIKE concat('(', id)",
        "regexp_replace('a' || id, concat('(', id), 'b')",
        "sequence(1, 3, CAST(id - 1 AS INT))",
        "decode(unhex('ff' || id), concat('nonsense', id))",
        "repeat('x' || id, 2000000000)",
        "raise_error(concat('mine ', id))",
    ],
)
def test_errors_of_expressions(place: Place, expression: str) -> None:
    frame = own_session(place.spark).range(3).selectExpr(f"{expression} AS x")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        frame.collect()
    found = expression_error(caught.value)
    assert found
    assert len(found.splitlines()) == 1


def test_errors_of_other_things(place: Place) -> None:
    def broken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ArithmeticError("1 / 0 in a worker")

    own = own_session(place.spark)
    (place.root / "a").mkdir()
    put = place.root / "a" / "x.json"
    put.write_text("{}")
    gone = own.read.schema("a int").json(str(place.root / "a"))
    put.unlink()
    for frame in (own.range(1).mapInArrow(broken, "id long"), gone):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            frame.collect()
        assert expression_error(caught.value) is None


@pytest.mark.parametrize(("code", "kind"), [("bytes(1 << 40)", OutOfMemory), ("os._exit(9)", WorkerLost)])
def test_memory_of_a_worker(place: Place, code: str, kind: type[WeftError]) -> None:
    """Too much is an error of the task; what ends a worker is told apart from what fails in it."""

    def greedy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os  # noqa: F401

        with worker_limits(Worker(memory=3 << 30)):
            for batch in batches:
                eval(code)
                yield batch

    with pytest.raises(Exception) as caught:  # noqa: PT011
        own_session(place.spark).range(1).mapInArrow(greedy, "id long").collect()
    assert isinstance(to_user_error(caught.value, 7), kind)
