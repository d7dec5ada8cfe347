"""Rows of single queries to the outside: Parquet directories exactly once, Python functions at least once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import weft
from tests.spark.support import Place, ordered, rows, steps, wait_for
from weft import WeftError
from weft.storage.directory import Directory

pytestmark = pytest.mark.spark


def test_parquet_is_exactly_once(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=1)
    out = place.root / "out"
    query = engine.create("SELECT v, name, v + 1 AS next FROM a WHERE v <> 3", name="q", sink=weft.parquet(out))
    for number in range(4):
        place.put("a", (number, 1, number, f"n{number}"))
    steps(engine)
    place.close()
    assert _read(out) == [(0, "n0", 1), (1, "n1", 2), (2, "n2", 3)]
    engine = place.engine()  # the sink is there again by itself
    query = engine.query("q")
    for number in range(4, 6):
        place.put("a", (number, 1, number, None))
    steps(engine)
    wait_for(lambda: len(_read(out)) == 5, "the rest is delivered")
    place.close()
    assert _read(out) == [(0, "n0", 1), (1, "n1", 2), (2, "n2", 3), (4, None, 5), (5, None, 6)]
    assert ordered(place.spark.read.parquet(str(out)).collect()) == _read(out)
    manifests = [json.loads(path.read_text()) for path in sorted((out / "_weft").glob("*.json"))]
    assert [manifest["batch"] for manifest in manifests] == [0, 1, 2, 4, 5]
    assert {name for manifest in manifests for name in manifest["files"]} == {
        path.name for path in out.glob("*.parquet")
    }
    assert sum(manifest["rows"] for manifest in manifests) == 5
    assert query.name == "q"


def _read(folder: Any) -> list[tuple[Any, ...]]:
    tables = [pa.parquet.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    return ordered(tuple(row.values()) for table in tables for row in table.to_pylist())


def test_a_parquet_batch_cut_short_is_delivered_again(place: Place) -> None:
    """As after a crash between the file and the note that it was delivered."""
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=1)
    out = place.root / "out"
    query = engine.create("SELECT v FROM a", name="q", sink=weft.parquet(out))
    for number in range(3):
        place.put("a", (number, 1, number))
    steps(engine)
    place.close()
    note = ("sinks", f"{query.id}.json")
    directory = Directory.open(place.state)
    directory.write_json(directory.read_json(*note) | {"delivered": 1}, *note)
    directory.close()
    (out / ".part-000000000001.parquet.tmp").write_bytes(b"cut short")
    place.engine()
    place.close()
    assert _read(out) == [(0,), (1,), (2,)]
    directory = Directory.open(place.state)
    assert directory.read_json(*note)["delivered"] == 3
    directory.close()


def test_one_query_per_directory(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    out = place.root / "out"
    engine.create("SELECT v FROM a", name="first", sink=weft.parquet(out))
    with pytest.raises(WeftError, match="sink of another query") as refused:
        engine.create("SELECT k FROM a", name="second", sink=weft.parquet(out))
    assert refused.value.code == "invalid_setting"
    assert [query.name for query in engine.queries()] == ["first"]
    place.put("a", (0, 1, 5))
    steps(engine)
    place.close()
    assert _read(out) == [(5,)]
    other = weft.Engine(path=place.root / "other", spark=place.spark)
    with other:
        place.streams(other, "a")
        with pytest.raises(WeftError) as elsewhere:
            other.create("SELECT v FROM a", sink=weft.parquet(out))
    assert elsewhere.value.code == "invalid_setting"
    assert _read(out) == [(5,)]


def test_a_sink_attached_later_gets_everything(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create("SELECT v FROM a")
    place.put("a", (0, 1, 1))
    steps(engine)
    query.deliver_to(weft.parquet(place.root / "out"))
    query.drop()
    place.close()
    assert _read(place.root / "out") == [(1,)]


def test_the_directory_of_a_query_that_never_was_is_free(place: Place) -> None:
    """As after a crash between the request and the boundary it waited for."""
    engine = place.engine()
    place.streams(engine, "a")
    image = place.root / "image"
    shutil.copytree(place.state, image)
    query = engine.create("SELECT v FROM a", sink=weft.parquet(place.root / "out"))
    shutil.copytree(place.state / "sinks", image / "sinks", dirs_exist_ok=True)
    shutil.copy(place.state / "identity.json", image)
    place.close()
    shutil.rmtree(place.state)
    image.rename(place.state)
    engine = place.engine()
    assert engine.queries() == []
    others = engine.create_many(["SELECT v FROM a", "SELECT k FROM a"])
    assert others[0].id == query.id
    others[1].deliver_to(weft.parquet(place.root / "out"))
    place.put("a", (0, 7, 1))
    steps(engine)
    place.close()
    assert _read(place.root / "out") == [(7,)]


def test_callback(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=1)
    got: list[tuple[int, list[Any]]] = []

    def take(found: Sequence[Any], batch: int) -> None:
        got.append((batch, list(found)))

    query = engine.create("SELECT v, name FROM a WHERE v <> 1", name="q", sink=weft.callback(take))
    for number in range(3):
        place.put("a", (number, 1, number, "x"))
    steps(engine)
    wait_for(lambda: len(got) == 2, "both batches with rows are delivered")
    assert got == [(0, [(0, "x")]), (2, [(2, "x")])]
    assert got[0][1][0].name == "x"
    place.close()
    engine = place.engine()
    place.put("a", (3, 1, 3, None))
    steps(engine)
    engine.query("q").deliver_to(weft.callback(take))
    place.close()
    assert got[2:] == [(3, [(3, None)])]
    assert query.id == "q1"


def test_a_failing_callback_holds_up_nobody(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=1)
    got: list[tuple[int, Any]] = []
    broken = True

    def take(found: Sequence[Any], batch: int) -> None:
        if broken:
            raise ConnectionError("the other side is away")
        got.extend((batch, row.v) for row in found)

    query = engine.create("SELECT v FROM a", sink=weft.callback(take))
    other = engine.create("SELECT k FROM a", sink=weft.parquet(place.root / "out"))
    for number in range(2):
        place.put("a", (number, 7, number))
    steps(engine)
    wait_for(lambda: engine.catalog.deliveries.error_of(query.id), "the failure is reported")
    assert "the other side is away" in engine.catalog.deliveries.error_of(query.id)
    wait_for(lambda: len(_read(place.root / "out")) == 2, "the other sink gets its rows")
    assert rows(query) == [(0,), (1,)]
    assert rows(other) == [(7,), (7,)]
    broken = False
    wait_for(lambda: not engine.catalog.deliveries.error_of(query.id), "it is tried again")
    assert sorted(set(got)) == [(0, 0), (1, 1)]


def test_undelivered_results_are_kept(place: Place) -> None:
    engine = place.engine(keep_results="0 seconds")
    place.streams(engine, "a", max_files_per_batch=1)
    got: list[int] = []
    broken = True

    def take(found: Sequence[Any], batch: int) -> None:
        if broken:
            raise ConnectionError
        got.extend(row.v for row in found)

    engine.create("SELECT v FROM a", sink=weft.callback(take))
    for number in range(4):
        place.put("a", (number, 7, number))
    steps(engine)
    broken = False
    wait_for(lambda: sorted(set(got)) == [0, 1, 2, 3], "nothing was freed before it was delivered")
