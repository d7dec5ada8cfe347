"""A new engine on the same path continues; what is kept on disk is bounded."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

import weft
from tests.spark.support import DDL, Place, alone, at, forget_spark_commit, rows, steps, within

pytestmark = pytest.mark.spark

JOIN = "SELECT x.v, y.v AS w FROM a [RANGE {0} SECONDS] x JOIN b [RANGE {0} SECONDS] y ON x.k = y.k"


def test_a_new_engine_continues(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b", lateness="5 seconds")
    join = engine.create(JOIN.format(10), name="join")
    gone = engine.create("SELECT v FROM a", name="gone")
    small = engine.create("SELECT v FROM a WHERE v < 3", name="small")
    slots = {query.name: query.explain().splitlines()[0] for query in (join, small)}
    a = [place.put("a", *((second, second % 3, second) for second in range(5)))]
    b = [place.put("b", (1, 0, 100), (2, 1, 101))]
    steps(engine)
    gone.drop()
    place.close()
    for round_, partitions in enumerate((3, 1), 1):
        engine = place.engine(partitions=partitions)
        assert [stream.name for stream in engine.streams()] == ["a", "b"]
        assert {query.name for query in engine.queries()} == {"join", "small"}
        join, small = engine.query("join"), engine.query("small")
        assert {query.name: query.explain().splitlines()[0] for query in (join, small)} == slots
        assert (join.state, join.complete_from) == ("live", None)
        assert engine.query("gone").state == "dropped"
        assert rows(engine.query("gone")) == [(v,) for v in range(5)]
        assert rows(join) == _joined(a, b)
        start = 5 * round_
        a.append(place.put("a", *((start + second, second % 3, 10 * round_ + second) for second in range(3))))
        b.append(place.put("b", (start, 0, 200 + round_), (start + 1, 2, 300 + round_)))
        place.streams(engine, "a", "b", lateness="5 seconds")  # declaring them again is harmless
        summary = engine.step()
        assert summary is not None
        assert summary.rows == 5
        assert engine.step() is None
        assert rows(join) == _joined(a, b)
        assert rows(small) == [(0,), (1,), (2,)]
        place.close()


def _joined(a: list[object], b: list[object]) -> list[tuple[object, ...]]:
    sql = f"SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND {within('a', 'b', 10)}"
    return alone({"a": a, "b": b}, sql)  # type: ignore[dict-item]


def test_ids_and_requests_go_on_after_a_restart(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    first = engine.create("SELECT v FROM a")
    first.drop()
    engine = place.engine()
    second = engine.create("SELECT k FROM a")
    assert second.id != first.id
    place.put("a", (0, 7, 1))
    steps(engine)
    engine = place.engine()
    third = engine.create("SELECT k FROM a")
    assert third.id not in (first.id, second.id)
    assert third.complete_from == at(0) + timedelta(microseconds=1)
    assert rows(engine.query(second.name)) == [(7,)]
    assert engine.query(first.name).state == "dropped"


def test_a_batch_that_only_spark_forgot_is_not_done_twice(place: Place) -> None:
    """As after a crash between weft's commit and Spark's; the same step does what is new."""
    engine = place.engine()
    place.put("a", (0, 1, 1))
    frame = place.spark.readStream.schema(DDL).parquet(str(place.root / "a"))
    engine.stream("a", frame, time="ts")
    query = engine.create("SELECT v FROM a", name="q")
    steps(engine)
    place.close()
    forget_spark_commit(place, "a", 0)
    engine = place.engine()
    engine.stream("a", frame, time="ts")
    place.put("a", (1, 1, 2))
    summary = engine.step()
    assert summary is not None
    assert (summary.batch, summary.rows) == (1, 1)
    assert engine.step() is None
    query = engine.query("q")
    assert rows(query) == [(1,), (2,)]


def test_without_sparks_checkpoint_nothing_is_skipped_in_silence(place: Place) -> None:
    engine = place.engine()
    place.put("a", (0, 1, 0))
    frame = place.spark.readStream.schema(DDL).parquet(str(place.root / "a"))
    engine.stream("a", frame, time="ts")
    engine.create("SELECT v FROM a", name="q")
    steps(engine)
    place.put("a", (1, 1, 1))
    steps(engine)
    place.close()
    shutil.move(place.state / "spark" / "a", place.root / "aside")
    place.put("a", (2, 1, 2))
    engine = place.engine()
    engine.stream("a", frame, time="ts")
    for _ in range(2):
        with pytest.raises(weft.WeftError, match='"spark/a"'):
            engine.step()
    assert rows(engine.query("q")) == [(0,), (1,)]
    place.close()
    shutil.move(place.root / "aside", place.state / "spark" / "a")
    engine = place.engine()
    engine.stream("a", frame, time="ts")
    steps(engine)
    assert rows(engine.query("q")) == [(0,), (1,), (2,)]


def test_without_a_checkpoint_every_batch_is_read_back(place: Place) -> None:
    """As after a crash: only what each commit wrote is there."""
    engine = place.engine()
    place.streams(engine, "a", "b", max_files_per_batch=1)
    engine.create(JOIN.format(2), name="join")
    tables = {name: [place.put(name, (s, 1, s), (s + 0.5, 2, s)) for s in range(6)] for name in ("a", "b")}
    steps(engine)
    copy = place.root / "copy"
    shutil.copytree(place.state, copy)
    place.close()
    shutil.rmtree(place.state)
    copy.rename(place.state)
    engine = place.engine()
    tables["a"].append(place.put("a", (6, 1, 6)))
    tables["b"].append(place.put("b", (6, 1, 6), (6.2, 2, 7)))
    steps(engine)
    sql = f"SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND {within('a', 'b', 2)}"
    assert rows(engine.query("join")) == alone(tables, sql)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_buckets_nobody_can_reach_are_freed(place: Place) -> None:
    """A short window over many batches with few matches: files do not pile up, and results stay whole."""
    engine = place.engine()
    place.streams(engine, "a", "b", max_files_per_batch=1)
    join = engine.create(JOIN.format(2), name="join")
    tables: dict[str, list[object]] = {"a": [], "b": []}
    counts = []
    for batch in range(14):
        for name in ("a", "b"):
            filler = [(batch + n / 1000, 1000 * batch + n + (500 if name == "b" else 0), n) for n in range(400)]
            tables[name].append(place.put(name, *filler, (batch + 0.5, 7, batch)))
        steps(engine)
        counts.append(len([path for path in place.data_files() if ".pairs." not in path and ".rows." not in path]))
    sql = f"SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND {within('a', 'b', 2)}"
    expected = alone(tables, sql)  # type: ignore[arg-type]
    assert rows(join) == expected
    assert len(expected) >= 14 + 2 * 13
    assert max(counts[4:]) <= max(counts[:5]) + 2, counts
    join.drop()
    place.put("a", (20, 1, 1))
    steps(engine)
    assert rows(join) == expected


def test_results_are_kept_as_long_as_asked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.engine.results.result_log.GRACE", 0.0)
    engine = place.engine(keep_results="0 seconds")
    place.streams(engine, "a", "b", max_files_per_batch=1)
    join, single = engine.create(JOIN.format(2), name="join"), engine.create("SELECT v FROM a", name="single")
    sizes = []
    for batch in range(8):
        for name in ("a", "b"):
            place.put(name, *((batch + n / 100, n, batch) for n in range(90)))
        steps(engine)
        sizes.append(_size(place.state / "data"))
        assert {v for (v,) in rows(single, partial=True)} <= {batch}
    with pytest.raises(weft.WeftError, match="are not kept any more"):
        rows(single)
    assert max(sizes[3:]) <= 1.5 * max(sizes[:3]), sizes
    copy = place.root / "copy"
    shutil.copytree(place.state, copy)
    place.close()
    for partitions, state in ((2, place.state), (3, copy)):  # after a stop, and as after a crash
        with weft.Engine(path=state, spark=place.spark, partitions=partitions) as again:
            assert {v for (v,) in rows(again.query("single"), partial=True)} <= {7}
            assert {v for v, _ in rows(again.query("join"), partial=True)} <= {6, 7}
    assert join.name == "join"


def test_a_session_with_other_settings(place: Place) -> None:
    """A session of the user's own, with Spark's defaults and another zone, is used as it is and left as it was."""
    session = place.spark.newSession()
    session.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "7")
    for round_ in range(2):
        with weft.Engine(path=place.state, spark=session, partitions=2) as engine:
            if not round_:
                place.streams(engine, "a", "b", lateness="1 hour")
                engine.create(JOIN.format(9), name="join")
                engine.create("SELECT date_format(ts, 'HH') AS h, v FROM a WHERE hour(ts) = 12", name="zone")
                engine.create("SELECT v FROM a WHERE 10 / (v - 1) > 0", name="ansi")
            place.put("a", (round_, 1, 3 - 2 * round_))
            place.put("b", (round_, 1, round_))
            steps(engine)
            assert len(rows(engine.query("join"))) == (round_ + 1) ** 2
            assert rows(engine.query("zone")) == [("12", 3), ("12", 1)][: round_ + 1][::-1]
            assert engine.query("ansi").state == ("failed" if round_ else "live")
        assert session.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert session.conf.get("spark.sql.ansi.enabled") == "false"
