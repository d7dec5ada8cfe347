"""Bad files, full disks, wrong state directories: a clear error with a stable code, nothing lost, nobody disturbed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest

import weft
from tests.spark.support import DDL, Place, alone, at, events, ordered, put, rows, steps, wait_for, within
from tests.support.disk import fill, small_disk
from tests.support.error_cases import PATHS, read_cases
from tests.support.sql_streams import STREAMS
from weft import WeftError
from weft.kernels.payload_types import payload_type
from weft.storage.directory import FORMAT

pytestmark = pytest.mark.spark

CASES = [(case.code, case.name, case.sql) for path in PATHS for case in read_cases(path)]
JOIN = "SELECT x.v, y.v AS w FROM a [RANGE 10 SECONDS] x JOIN b [RANGE 10 SECONDS] y ON x.k = y.k"


def _bad_files(folder: Path) -> dict[str, str]:
    """Files that are no files of the stream, by name, and a word of the reason each must be given."""
    good = events((50, 1, 50))
    put(folder, good, "1-cut.parquet")
    data = (folder / "1-cut.parquet").read_bytes()
    (folder / "1-cut.parquet").write_bytes(data[: len(data) // 2])
    (folder / "2-noise.parquet").write_bytes(os.urandom(1000))
    (folder / "3-empty.parquet").touch()  # no rows and no error: Spark does not even open it
    put(folder, good.drop_columns(["ts"]), "4-missing.parquet")
    put(folder, good.set_column(2, "v", pa.array(["fifty"])), "5-type.parquet")
    put(folder, good.set_column(2, "v", pa.array([2**40])), "6-range.parquet")
    put(folder, good.set_column(0, "ts", pa.array([50])), "7-time.parquet")
    return {
        "1-cut.parquet": "",
        "2-noise.parquet": "magic",
        "4-missing.parquet": '"ts" is missing',
        "5-type.parquet": '"v" is string, not int',
        "6-range.parquet": '"v"',
        "7-time.parquet": '"ts" is int64, not timestamp',
    }


@pytest.mark.parametrize("opaque", [False, True], ids=["own", "opaque"])
def test_bad_files_are_set_aside(place: Place, opaque: bool) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b", lateness="1 hour")
    queries = [engine.create(JOIN, name="join"), engine.create("SELECT v FROM a", name="all")]
    if opaque:
        queries.append(engine.create("SELECT v FROM a WHERE length(trim(cast(v AS string))) > 0", name="opaque"))
    a = [place.put("a", (0, 1, 1))]
    b = [place.put("b", (1, 1, 2))]
    steps(engine)
    reasons = _bad_files(place.root / "a")
    a.append(place.put("a", (2, 1, 3), name="8-good.parquet"))
    b.append(place.put("b", (2, 1, 4)))
    (summary,) = steps(engine)
    found = {Path(text.split(": ", 1)[0]).name: text for text in summary.streams["a"].bad_files}
    assert set(found) == set(reasons)
    for name, reason in reasons.items():
        assert reason in found[name], found[name]
        (copy,) = (place.state / "quarantine" / "a").glob(f"*-{name}")
        assert copy.read_bytes() == (place.root / "a" / name).read_bytes()
        assert "[bad_file]" in copy.with_name(copy.name + ".reason").read_text()
    assert summary.streams["b"].bad_files == ()
    assert [query.state for query in queries] == ["live"] * len(queries)
    sql = f"SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND {within('a', 'b', 10)}"
    assert rows(queries[0]) == alone({"a": a, "b": b}, sql)
    assert [rows(query) for query in queries[1:]] == [[(1,), (3,)]] * (len(queries) - 1)
    place.put("a", (50, 1, 50), name="repaired.parquet")
    steps(engine)
    assert rows(queries[1]) == [(1,), (3,), (50,)]


def test_a_bad_file_can_stop_its_stream(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", on_bad_file="fail")
    place.streams(engine, "b")
    query, other = engine.create("SELECT v FROM a", name="q"), engine.create("SELECT v FROM b")
    place.put("a", (0, 1, 1))
    steps(engine)
    broken = place.root / "a" / "broken.parquet"
    broken.write_bytes(b"PAR1 not at all")
    place.put("a", (1, 1, 2))
    place.put("b", (1, 1, 3))
    (summary,) = [engine.step()]
    assert summary is not None
    assert set(summary.streams) == {"b"}, "only the stream of the bad file waits"
    for _ in range(2):
        with pytest.raises(WeftError, match=r"broken\.parquet") as failed:
            engine.step()
        assert failed.value.code == "bad_file"
        assert failed.value.hint
    assert engine.stream_errors() == {"a": failed.value}
    assert [rows(query), rows(other)] == [[(1,)], [(3,)]]
    assert engine.create("SELECT k FROM a").state == "live"
    engine.start("50 milliseconds")
    wait_for(lambda: "a" in engine.stream_errors(), "the stream waits")
    place.put("b", (2, 1, 4))
    wait_for(lambda: rows(other) == [(3,), (4,)], "the other stream goes on")
    assert engine.running
    assert engine.health().failing_streams == ("a",)
    broken.unlink()
    put(place.root / "a", events((1, 1, 9)), "broken.parquet")  # repaired under its own name
    wait_for(lambda: rows(query) == [(1,), (2,), (9,)], "the stream is read again")
    wait_for(lambda: not engine.stream_errors(), "nothing is wrong any more")


def test_a_full_disk_loses_nothing(place: Place) -> None:
    with small_disk(place.root / "state", "4m"):
        engine = place.engine()
        place.streams(engine, "a", "b", lateness="1 hour", max_files_per_batch=1)
        engine.create(JOIN, name="join")
        engine.create("SELECT v, name FROM a", name="all")
        tables = {name: [place.put(name, *((0, n, n, "x" * 100) for n in range(500)))] for name in "ab"}
        steps(engine)
        filler = place.state / "filler"
        fill(filler)
        for name in "ab":
            tables[name].append(place.put(name, *((1, n, n, "y" * 100) for n in range(500))))
        with pytest.raises(WeftError) as full:
            engine.step()
        assert full.value.code == "disk_full"
        assert full.value.hint
        with pytest.raises(WeftError) as refused:
            engine.create("SELECT k FROM a", name="late")
        assert refused.value.code == "disk_full"
        assert {query.name for query in engine.queries()} == {"join", "all"}
        assert len(rows(engine.query("all"))) == 500
        filler.unlink()
        late = engine.create("SELECT k FROM a WHERE k = 7", name="late")
        steps(engine)
        _check(engine, tables)
        assert rows(late) == [(7,)]
        fill(filler)
        tables["a"].append(place.put("a", *((2, n, n, "z" * 100) for n in range(500))))
        engine.start("50 milliseconds")
        with pytest.raises(WeftError) as ended:
            engine.wait(120)
        assert ended.value.code == "disk_full"
        filler.unlink()
        place.close()
        engine = place.engine()
        steps(engine)
        _check(engine, tables)
        place.close()


def _check(engine: weft.Engine, tables: dict[str, list[pa.Table]]) -> None:
    sql = f"SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND {within('a', 'b', 10)}"
    assert rows(engine.query("join")) == alone(tables, sql)
    assert rows(engine.query("all")) == alone(tables, "SELECT v, name FROM a")


def test_a_state_directory_of_another_version(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create("SELECT v FROM a", name="q")
    place.put("a", (0, 1, 1))
    steps(engine)
    place.close()
    form = place.state / "format.json"
    right = form.read_text()
    for text, code in (('{"format": 99}', "state_version"), ('{"format": 0}', "state_version"), ("{", "state_corrupt")):
        form.write_text(text)
        with pytest.raises(WeftError) as refused:
            place.engine()
        assert refused.value.code == code
        assert form.read_text() == text
    form.write_text(right)
    query = place.engine().query("q")
    assert rows(query) == [(1,)]


def test_a_directory_that_is_not_ours(place: Place) -> None:
    place.state.mkdir()
    (place.state / "thesis.tex").write_text("years of work")
    with pytest.raises(WeftError, match="not a weft state directory") as refused:
        place.engine()
    assert refused.value.code == "state_version"
    assert (place.state / "thesis.tex").read_text() == "years of work"
    with pytest.raises(WeftError) as remote:
        weft.Engine("s3://bucket/path", spark=place.spark)
    assert remote.value.code == "invalid_setting"
    (place.root / "file").touch()
    with pytest.raises((WeftError, OSError)):
        weft.Engine(place.root / "file", spark=place.spark)


def test_rubbish_in_the_state_directory(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", "b", lateness="1 hour")
    engine.create(JOIN, name="join")
    tables = {name: [place.put(name, (0, 1, 1), (1, 2, 2))] for name in "ab"}
    steps(engine)
    place.close()
    for folder in ("data", "commits", "changelog", "checkpoints", "packs", "streams", "sinks", "quarantine", "."):
        for name in (".DS_Store", "notes.txt", "000000000007.json.tmp", "core.1234", "q.json.swp"):
            (place.state / folder / name).write_bytes(os.urandom(50))
    (place.state / "data" / "000000000000").mkdir(exist_ok=True)
    (place.state / "data" / "000000000000" / "foreign.arrow").write_bytes(b"?")
    (place.state / "data" / "000000000042").mkdir()
    (place.state / "data" / "000000000042" / "half.arrow").write_bytes(b"?")
    engine = place.engine()
    tables["b"].append(place.put("b", (2, 1, 3)))
    steps(engine)
    sql = f"SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND {within('a', 'b', 10)}"
    assert rows(engine.query("join")) == alone(tables, sql)
    assert not (place.state / "data" / "000000000042").exists()


@pytest.mark.parametrize("folder", ["streams", "packs", "checkpoints"])
def test_a_damaged_state_file_is_named(place: Place, folder: str) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    engine.create("SELECT v FROM a", name="q")
    place.put("a", (0, 1, 1))
    steps(engine)
    place.close()
    (victim,) = (place.state / folder).iterdir()
    whole = victim.read_bytes()
    victim.write_bytes(b'{"broken": \n' + whole[20:])
    with pytest.raises(WeftError, match=victim.name) as refused:
        place.engine()
    assert refused.value.code == "state_corrupt"
    victim.write_bytes(whole)
    assert rows(place.engine().query("q")) == [(1,)]


def test_two_engines_on_one_path(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create("SELECT v FROM a", name="q")
    with pytest.raises(WeftError) as refused:
        weft.Engine(path=place.state, spark=place.spark)
    assert refused.value.code == "state_locked"
    assert str(os.getpid()) in refused.value.detail
    link = place.root / "link"
    link.symlink_to(place.state)
    with pytest.raises(WeftError) as linked:
        weft.Engine(path=link, spark=place.spark)
    assert linked.value.code == "state_locked"
    script = f"""
        import weft
        try:
            weft.Engine({str(place.state)!r}, spark=object())
        except weft.WeftError as error:
            print(error.code)
    """
    other = subprocess.run(
        [sys.executable, "-c", dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    assert other.stdout.strip() == "state_locked"
    place.put("a", (0, 1, 1))
    steps(engine)
    assert rows(query) == [(1,)]


def test_hostile_names(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    files = weft.files(place.root / "a", schema=DDL)
    before = _tree(place.state)
    hostile = [
        "",
        "../up",
        "a/b",
        "/etc/passwd",
        "..",
        ".hidden",
        "a\0b",
        "a b",
        "x" * 129,
        "né",
        "a;b",
        "--",
        "a\nb",
        "`a`",
    ]
    for name in hostile:
        for call in (
            lambda name=name: engine.create("SELECT v FROM a", name=name),
            lambda name=name: engine.stream(name, files, time="ts"),
        ):
            with pytest.raises(WeftError) as refused:
                call()
            assert refused.value.code == "invalid_name", name
    assert _tree(place.state) == before
    assert engine.queries() == []
    odd = ["a", "x" * 128, "q1", "0", "a.b-c_d", "CON", "null", "select"]
    queries = [engine.create("SELECT v FROM a", name=name) for name in odd]
    unnamed = engine.create("SELECT v FROM a")
    assert unnamed.name not in odd
    place.put("a", (0, 1, 1))
    steps(engine)
    assert [rows(query) for query in (*queries, unnamed)] == [[(1,)]] * 9
    engine = place.engine()
    assert ordered(query.name for query in engine.queries()) == ordered([*odd, unnamed.name])


def _tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_batch_spark_knows_and_the_state_directory_does_not(place: Place) -> None:
    """Spark's checkpoint of a DataFrame put together with older weft files: refused, not guessed."""
    engine = place.engine()
    place.put("a", (0, 1, 1))
    reader = place.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(place.root / "a"))
    engine.stream("a", frame, time="ts")
    engine.create("SELECT v FROM a", name="q")
    steps(engine)
    place.close()
    old = place.root / "old"
    shutil.copytree(place.state, old)
    engine = place.engine()
    engine.stream("a", frame, time="ts")
    for number in range(1, 4):
        place.put("a", (number, 1, number))
    steps(engine)
    place.close()
    shutil.rmtree(old / "spark")
    shutil.copytree(place.state / "spark", old / "spark")
    place.put("a", (4, 1, 4))
    with weft.Engine(path=old, spark=place.spark) as mixed:
        mixed.stream("a", frame, time="ts")
        with pytest.raises(WeftError) as refused:
            mixed.step()
        assert refused.value.code == "state_corrupt"
        assert rows(mixed.query("q")) == [(1,)]
    assert json.loads((place.state / "format.json").read_text()) == {"format": FORMAT}


def test_bad_queries_disturb_nobody(place: Place) -> None:
    """All of the corpus while data flow: each refused with its code, and the live query gets every row."""
    engine = place.engine()
    for stream in STREAMS.values():
        folder = place.root / stream.name
        folder.mkdir()
        engine.stream(stream.name, weft.files(folder, schema=stream.schema.ddl()), time=stream.time)
    live = engine.create("SELECT price FROM purchases WHERE price >= 0", name="live")
    engine.start("50 milliseconds")
    for number, (code, _, sql) in enumerate(CASES):
        if number % 40 == 0:
            put(place.root / "purchases", _purchase(number))
        with pytest.raises(WeftError) as refused:
            engine.create(sql)
        assert refused.value.code == code, sql
    wanted = [(number,) for number in range(0, len(CASES), 40)]
    wait_for(lambda: len(rows(live)) == len(wanted), "the live query has all rows")
    assert rows(live) == ordered(wanted)
    assert [query.name for query in engine.queries()] == ["live"]
    assert engine.running


def _purchase(number: int) -> pa.Table:
    """One purchase at second `number` for that price; nothing else about it is known."""
    values = {"ts": at(number), "price": number}
    schema = pa.schema([(field.name, payload_type(field.type)) for field in STREAMS["purchases"].schema])
    return pa.Table.from_pylist([values], schema)
