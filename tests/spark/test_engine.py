"""The public engine on real Spark, by the names the README gives."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from tests.spark.support import Place, alone, at, ordered, put, rows, steps, wait_for, within
from weft import WeftError

pytestmark = pytest.mark.spark

PURCHASES = "ts timestamp, userID bigint, gemPack int, price int"
ADS = "ts timestamp, userID bigint, gemPack int"


def _shop(folder: Path, name: str, second: int, *users: int) -> pa.Table:
    """One second of purchases or ads: one row per user, prices 5, 10, 15, …"""
    columns = {
        "ts": pa.array([at(second + number / 10) for number in range(len(users))], pa.timestamp("us", "UTC")),
        "userID": pa.array(users, pa.int64()),
        "gemPack": pa.array([user % 3 for user in users], pa.int32()),
    }
    if name == "purchases":
        columns["price"] = pa.array([5 * (number + 1) for number in range(len(users))], pa.int32())
    table = pa.table(columns)
    put(folder / name, table)
    return table


def test_everything_the_readme_shows(place: Place) -> None:
    folder = place.root / "in"
    purchases = [_shop(folder, "purchases", second, 1, 2, 3, 1) for second in range(2)]
    ads = [_shop(folder, "ads", second, 3, 1) for second in range(2)]
    engine = place.engine(partitions=4)
    engine.stream(
        "purchases",
        weft.files(folder / "purchases", format="parquet", schema=PURCHASES, max_files_per_batch=1),
        time="ts",
        lateness="5 seconds",
    )
    engine.stream("ads", weft.files(folder / "ads"), time="ts", lateness="5 seconds")
    q = engine.create(
        "SELECT p.userID, a.ts FROM purchases [RANGE 10 SECONDS] p JOIN ads [RANGE 10 SECONDS] a "
        "ON p.userID = a.userID WHERE p.price > 10",
        name="hot",
    )
    many = engine.create_many(
        ["SELECT userID FROM ads WHERE gemPack = 0", ("cheap", "SELECT price FROM purchases WHERE price <= 5")]
    )
    assert [each.state for each in (q, *many)] == ["live"] * 3
    assert q.complete_from is None
    engine.start(trigger="100 milliseconds")
    sql = f"SELECT p.userID, a.ts FROM p JOIN a ON p.userID = a.userID AND {within('p', 'a', 10)} WHERE p.price > 10"
    expected = alone({"p": purchases, "a": ads}, sql)
    wait_for(lambda: len(rows(q)) >= len(expected), "all joined rows are committed")
    assert rows(q) == expected
    assert ordered(q.tail(timeout=0.1)) == expected
    assert many[1].name == "cheap"
    assert rows(many[0]) == [(3,), (3,)]
    assert rows(many[1]) == [(5,), (5,)]
    later = engine.create("SELECT p.price FROM purchases p")
    assert later.wait_live(60)
    assert later.complete_from == at(1.3) + timedelta(microseconds=1)
    assert "hot" in engine.explain()
    assert "hot" in q.explain()
    q.drop()
    wait_for(lambda: q.state == "dropped", "the drop is in effect")
    engine.stop()
    engine.stop()


def test_step_is_one_batch(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=1)
    query = engine.create("SELECT v FROM a")
    assert engine.step() is None
    for number in range(3):
        place.put("a", (number, 1, number), (number, 2, number))
    for number in range(3):
        summary = engine.step()
        assert summary is not None
        assert (summary.batch, summary.rows, summary.late, summary.queries, summary.failed) == (number, 2, 0, 1, ())
        assert set(summary.streams) == {"a"}
        assert set(summary.seconds) >= {"compile", "run", "commit"}
        assert len(rows(query)) == 2 * (number + 1)
    assert engine.step() is None
    assert engine.step() is None
    assert not engine.running


def test_available_now_ends_by_itself(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=1)
    query = engine.create("SELECT v FROM a")
    for number in range(3):
        place.put("a", (number, 1, number))
    engine.start("available-now")
    assert engine.wait(120)
    assert not engine.running
    assert rows(query) == [(0,), (1,), (2,)]
    place.put("a", (3, 1, 3))
    engine.start("available-now")
    assert engine.wait(120)
    assert rows(query) == [(0,), (1,), (2,), (3,)]


def test_started_is_started(place: Place) -> None:
    engine = place.engine()
    with pytest.raises(WeftError, match="no stream is declared") as refused:
        engine.start("1 second")
    assert refused.value.code == "engine_stopped"
    place.streams(engine, "a")
    for trigger in ("soon", "-1 seconds", ""):
        with pytest.raises(WeftError):
            engine.start(trigger)
    engine.start("100 milliseconds")
    assert engine.running
    assert not engine.wait(0)
    assert not engine.wait(0.1)
    for call in (engine.start, engine.step):
        with pytest.raises(WeftError) as twice:
            call()
        assert twice.value.code == "engine_stopped"
    engine.stop()
    assert not engine.running
    for call in (engine.start, engine.step, lambda: engine.create("SELECT v FROM a")):
        with pytest.raises(WeftError) as stopped:
            call()
        assert stopped.value.code == "engine_stopped"


def test_create_many_is_all_or_nothing(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    kept = engine.create("SELECT v FROM a", name="kept")
    good = ("good", "SELECT k FROM a")
    for bad, code in (
        (("bad", "SELECT nothing FROM a"), "unknown_column"),
        (("bad", "SELEC v FROM a"), "syntax_error"),
        (("kept", "SELECT v FROM a"), "duplicate_query"),
        (("good", "SELECT v FROM a"), "duplicate_query"),
        (("../bad", "SELECT v FROM a"), "invalid_name"),
        (("bad", "SELECT v FROM a WHERE no_such_function(v)"), "unsupported_query"),
        (("bad", "SELECT v FROM a WHERE upper(v, v) = 'A'"), "type_mismatch"),
    ):
        with pytest.raises(WeftError) as refused:
            engine.create_many([good, bad])
        assert refused.value.code == code
        assert [query.name for query in engine.queries()] == ["kept"]
    with pytest.raises(WeftError) as unknown:
        engine.query("good")
    assert unknown.value.code == "unknown_query"
    place.put("a", (0, 1, 7))
    assert steps(engine)[0].queries == 1
    assert rows(kept) == [(7,)]


def test_partitions_are_checked(place: Place) -> None:
    for partitions in (0, -1, 5000):
        with pytest.raises(WeftError) as refused:
            place.engine(partitions=partitions)
        assert refused.value.code == "invalid_setting"
    assert not place.state.exists()


def test_explain_names_what_is_shared(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b")
    join = "FROM a [RANGE {} SECONDS] x JOIN b [RANGE {} SECONDS] y ON x.k = y.k"
    first = engine.create("SELECT x.v " + join.format(1, 1), name="first")
    engine.create("SELECT y.v " + join.format(5, 2) + " WHERE x.v > 3", name="second")
    third = engine.create("SELECT x.v FROM a [RANGE 1 SECOND] x JOIN b [RANGE 1 SECOND] y ON x.v = y.v", name="third")
    single = engine.create("SELECT v FROM a", name="single")
    text = first.explain()
    assert "slot 0" in text
    assert "rows of a by `k`; shared with second" in text
    assert text.count("shared with second") == 3  # both stores and the join
    assert "third" not in text
    assert "shared with nobody" in third.explain()
    assert "runs as a selection" in single.explain()
    whole = engine.explain()
    assert "4 queries" in whole
    assert "2 joins" in whole
    assert "serves first, second" in whole
    engine.query("second").drop()
    assert "shared with nobody" in first.explain()
    assert "dropped" in engine.query("second").explain()


def test_a_name_is_free_after_its_drop(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    old = engine.create("SELECT v FROM a", name="q")
    with pytest.raises(WeftError) as taken:
        engine.create("SELECT k FROM a", name="q")
    assert taken.value.code == "duplicate_query"
    place.put("a", (0, 1, 10))
    steps(engine)
    old.drop()
    old.drop()
    new = engine.create("SELECT k FROM a", name="q")
    place.put("a", (1, 2, 20))
    steps(engine)
    assert (old.state, new.state) == ("dropped", "live")
    assert rows(old) == [(10,)]
    assert rows(new) == [(2,)]
    assert list(old.tail()) == [(10,)]
    assert rows(engine.query("q")) == [(2,)]
    assert new.complete_from == at(0) + timedelta(microseconds=1)


def test_the_slot_of_a_dropped_query_is_used_again_for_good(place: Place) -> None:
    """Rows tagged for the query that had the slot before must not become the new one's."""
    engine = place.engine()
    place.streams(engine, "a", "b", lateness="10 seconds")
    join = "SELECT x.v, y.v AS w FROM a [RANGE 10 SECONDS] x JOIN b [RANGE 10 SECONDS] y ON x.k = y.k"
    old = engine.create(join, name="old")
    place.put("a", (0, 1, 1))
    steps(engine)
    old.drop()
    new = engine.create(join, name="new")
    assert "slot 0" in new.explain()
    place.put("b", (0.5, 1, 2), (1, 1, 3))
    place.put("a", (0.6, 1, 4), (0.7, 1, 5))
    steps(engine)
    assert rows(old) == []
    assert rows(new) == [(4, 2), (4, 3), (5, 2), (5, 3)]
