"""Hostile queries that are accepted, on real Spark: they harm nobody, and another's query keeps its rows."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from tests.hostile.corpus import CANARY, CORPUS, DDL, PORT, Hostile
from tests.spark.support import Place, at, put, rows, steps
from weft.errors import QueryError

pytestmark = pytest.mark.spark

SECRET = "hostile-canary-7f3a"
# Before Spark is started: its processes inherit the environment of this one.
os.environ[CANARY] = SECRET

BODIES = [
    "a" * 45 + "!", "x" * 4000, "10:00", "T12:30:00", "now", "2024-05-06 07:08:09", '{"a": 1}', "http://h/?a=b", None,
]  # fmt: skip


@pytest.fixture
def listener() -> Iterator[tuple[int, list[object]]]:
    """A port of this machine, and the connections that were made to it."""
    seen: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                seen.append(address)
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], seen
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def _stream(place: Place, engine: weft.Engine) -> None:
    count = len(BODIES)
    table = pa.table(
        {
            "ts": pa.array([at(n) for n in range(count)], pa.timestamp("us", "UTC")),
            "k": pa.array(range(count), pa.int64()),
            "v": pa.array([n - 1 for n in range(count)], pa.int32()),
            "ratio": pa.array([n / 3 for n in range(count)]),
            "name": pa.array([f"n{n}" for n in range(count)]),
            "body": pa.array(BODIES),
            "tags": pa.array([["10:00", "b"], []] + [None] * (count - 2), pa.list_(pa.string())),
            "addr": pa.array([{"city": "x"}] * count),
        }
    )
    folder: Path = place.root / "s"
    put(folder, table)
    engine.stream("s", weft.files(folder, format="parquet", schema=DDL), time="ts", lateness="1 hour")


def test_hostile_queries_do_no_harm(place: Place, listener: tuple[int, list[object]]) -> None:
    port, seen = listener
    engine = place.engine()
    _stream(place, engine)
    other = engine.create("SELECT k, v FROM s WHERE v > 0", name="other")
    created: list[tuple[Hostile, weft.Query]] = []
    for each in CORPUS:
        text = each.sql.replace(PORT, str(port))
        if each.code is None:
            created.append((each, engine.create(text)))
            continue
        with pytest.raises(QueryError) as caught:
            engine.create(text)
        assert caught.value.code == each.code, each.name
        assert SECRET not in str(caught.value), each.name
    steps(engine)
    assert rows(other) == [(n, n - 1) for n in range(2, len(BODIES))]
    for each, query in created:
        assert query.state == "live", (each.name, query.error)
        found = rows(query)
        assert found == rows(query), each.name  # a second reading gives the same
        assert SECRET not in repr(found), each.name
        assert SECRET not in repr(query.results().columns), each.name
    assert seen == []


def test_times_of_day_are_not_completed_by_the_clock(place: Place) -> None:
    engine = place.engine()
    _stream(place, engine)
    tried = engine.create("SELECT k, TRY_CAST(body AS TIMESTAMP) AS x FROM s")
    strict = engine.create("SELECT CAST(body AS TIMESTAMP) AS x FROM s WHERE k = 5")
    steps(engine)
    moment = datetime.fromisoformat("2024-05-06T07:08:09+00:00")
    assert [value for _, value in rows(tried) if value is not None] == [moment]
    assert rows(strict) == [(moment,)]


@pytest.mark.parametrize(
    "expression", ["INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1' MONTH", "struct(INTERVAL '1-2' YEAR TO MONTH AS i)"]
)
def test_a_type_that_arrow_cannot_carry_is_refused_at_creation(place: Place, expression: str) -> None:
    engine = place.engine()
    _stream(place, engine)
    with pytest.raises(QueryError, match=r"of type .*interval") as caught:
        engine.create(f"SELECT {expression} AS i FROM s")
    assert caught.value.code == "unsupported_query"
