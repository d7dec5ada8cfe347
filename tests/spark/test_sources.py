"""Sources: files of every format, any streaming DataFrame, streams that come later and come back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

import weft
from tests.spark.support import DDL, Place, alone, at, events, ordered, put, rows, steps, wait_for, within
from weft import WeftError

pytestmark = pytest.mark.spark

TYPED = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("i", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
    ]
)
TYPED_DDL = "ts timestamp, i bigint, x double, d decimal(10,2), s string, b boolean, day date, t timestamp"
VALUES: list[tuple[Any, ...]] = [
    (at(0), 1, 0.5, Decimal("1.50"), "plain", True, date(2024, 2, 29), at(100)),
    (at(1), -(2**62), -1e300, Decimal("-99999999.99"), 'quote " comma , line\n', False, date(1969, 12, 31), at(-1e9)),
    (at(2), None, None, None, None, None, None, None),
    (at(3.000001), 0, 0.0, Decimal("0.00"), "", True, date(1970, 1, 1), at(0.123456)),
    (at(4), 7, 2.25, Decimal("7.00"), "日本 é 𝄞", False, date(2100, 1, 1), at(7)),
]
FORMATS = {"parquet": ".parquet", "json": ".json", "csv": ".csv", "arrow": ".arrow", "arrow stream": ".arrows"}


def _typed(rows_: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows_, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, TYPED, strict=True)], TYPED)


def test_every_format_and_type(place: Place) -> None:
    engine = place.engine()
    queries = {}
    for name, suffix in FORMATS.items():
        stream = name.replace(" ", "_")
        put(place.root / stream, _typed(VALUES[:3]), "1" + suffix)
        put(place.root / stream, _typed(VALUES[3:]), "2" + suffix)
        source = weft.files(place.root / stream, format=name.split()[0], schema=TYPED_DDL)
        engine.stream(stream, source, time="ts", lateness="1 day")
        queries[name] = engine.create(f"SELECT * FROM {stream}")
    join = "SELECT x.ts, y.ts AS other FROM parquet [RANGE 1 DAY] x JOIN csv [RANGE 1 DAY] y ON x.{0} = y.{0}"
    keys = {column: engine.create(join.format(column)) for column in ("i", "d", "s", "b", "day", "t")}
    where = engine.create(
        "SELECT i FROM json WHERE d >= 1.5 AND day > DATE '1970-01-01' AND t < TIMESTAMP '2024-03-02 00:00:00'"
    )
    assert [len(summary.streams) for summary in steps(engine)] == [5]
    for name, query in queries.items():
        assert rows(query) == ordered(VALUES), name
        assert query.results().schema == place.spark.createDataFrame([], TYPED_DDL).schema, name
    whole = {"a": _typed(VALUES)}
    for column, query in keys.items():
        expected = alone(whole, f"SELECT x.ts, y.ts AS other FROM a x JOIN a y ON x.{column} = y.{column}")
        assert rows(query) == expected, column
    assert rows(where) == [(1,), (7,)]


def test_schemas_are_inferred(place: Place) -> None:
    engine = place.engine()
    zoned = timezone(timedelta(hours=-5))
    table = pa.table(
        {
            "ts": pa.array([at(0), at(1)], pa.timestamp("ms", "America/New_York")),
            "nano": pa.array([at(0), None], pa.timestamp("ns", "UTC")),
            "small": pa.array([1, None], pa.int16()),
            "unsigned": pa.array([2**32 - 1, 0], pa.uint32()),
            "coded": pa.array(["a", "b"]).dictionary_encode(),
            "wide": pa.array(["x", None], pa.large_string()),
            "price": pa.array([Decimal("1.234"), None], pa.decimal128(12, 3)),
            "items": pa.array([[1, 2], None], pa.list_(pa.int64())),
        }
    )
    expected = (at(0), at(0), 1, 2**32 - 1, "a", "x", Decimal("1.234"))
    columns = "ts, nano, small, unsigned, coded, wide, price"
    for suffix in (".parquet", ".arrow"):
        name = suffix[1:]
        put(place.root / name, table, "1" + suffix)
        stream = engine.stream(name, weft.files(place.root / name, format=name), time="ts", lateness="1 day")
        types = {field.name: field.type.ddl() for field in stream.schema}
        assert types["ts"] == types["nano"] == "timestamp"
        assert (types["small"], types["unsigned"], types["price"]) == ("smallint", "bigint", "decimal(12,3)")
        assert (types["coded"], types["wide"], types["items"]) == ("string", "string", "array<bigint>")
    queries = [engine.create(f"SELECT {columns} FROM {name} WHERE price > 1") for name in ("parquet", "arrow")]
    arrays = engine.create("SELECT items FROM parquet")
    steps(engine)
    assert [rows(query) for query in queries] == [[expected]] * 2
    assert rows(arrays) == ordered([([1, 2],), (None,)])
    assert at(0).astimezone(zoned) == at(0)


def test_text_schemas_are_inferred(place: Place) -> None:
    engine = place.engine()
    table = events((0, 1, 2, "x"), (1.5, 3, None, None))
    for suffix in (".csv", ".json"):
        name = suffix[1:]
        put(place.root / name, table, "1" + suffix)
        engine.stream(name, weft.files(place.root / name, format=name), time="ts", lateness="1 day")
    queries = [engine.create(f"SELECT ts, k, v, name FROM {name}") for name in ("csv", "json")]
    steps(engine)
    for query in queries:
        assert rows(query) == ordered([(at(0), 1, 2, "x"), (at(1.5), 3, None, None)])


def test_event_time_without_a_zone(place: Place) -> None:
    engine = place.engine()
    table = pa.table(
        {"ts": pa.array([at(n).replace(tzinfo=None) for n in range(4)], pa.timestamp("us")), "v": [0, 1, 2, 3]}
    )
    put(place.root / "a", table.slice(0, 2))
    stream = engine.stream("a", weft.files(place.root / "a"), time="ts")
    assert stream.schema.ddl() == "`ts` timestamp_ntz, `v` bigint"
    plain = engine.create("SELECT ts, v FROM a WHERE ts >= TIMESTAMP_NTZ '2024-03-01 12:00:01'")
    opaque = engine.create("SELECT v FROM a WHERE length(trim(cast(v AS string))) = 1 AND second(ts) <> 3")
    windows = engine.create("SELECT v, window_start FROM a [TUMBLE 2 SECONDS]")
    steps(engine)
    put(place.root / "a", table)
    assert steps(engine)[0].late == 1
    assert rows(plain) == ordered((at(n).replace(tzinfo=None), n) for n in (1, 1, 2, 3))
    assert rows(opaque) == [(0,), (1,), (1,), (2,)]
    assert rows(windows) == ordered((n, at(n // 2 * 2)) for n in (0, 1, 1, 2, 3))


def test_streams_may_share_a_source(place: Place) -> None:
    engine = place.engine()
    frames = []
    for _ in range(2):  # the second time as after a restart, with other names before them
        (place.root / "a").mkdir(exist_ok=True)
        base = place.spark.readStream.schema(DDL).parquet(str(place.root / "a"))
        frames.append((base.where("v > 0"), base.where("v < 3")))
    engine.stream("high", frames[0][0], time="ts")
    engine.stream("low", frames[0][1], time="ts")
    engine.create("SELECT x.v FROM high [RANGE 1 SECOND] x JOIN low [RANGE 1 SECOND] y ON x.v = y.v", name="both")
    place.put("a", *((0, 1, v) for v in range(5)))
    steps(engine)
    with weft.Engine(path=place.root / "other", spark=place.spark) as other:
        other.stream("elsewhere", frames[1][0], time="ts")
        other.create("SELECT v FROM elsewhere", name="all")
        steps(other)
        assert rows(other.query("all")) == [(v,) for v in range(1, 5)]
    assert rows(engine.query("both")) == [(1,), (2,)]
    engine = place.engine()
    engine.stream("high", frames[1][0], time="ts")
    engine.stream("low", frames[1][1], time="ts")
    place.put("a", *((1, 1, v) for v in range(5)))
    steps(engine)
    assert rows(engine.query("both")) == [(1,), (1,), (2,), (2,)]


def test_nothing_to_infer_a_schema_from(place: Place) -> None:
    engine = place.engine()
    (place.root / "a").mkdir()
    with pytest.raises(WeftError) as refused:
        engine.stream("a", weft.files(place.root / "a"), time="ts")
    assert refused.value.code == "invalid_stream"
    assert "schema=" in refused.value.hint
    assert engine.streams() == ()


def test_file_names_of_every_kind(place: Place) -> None:
    engine = place.engine()
    names = [
        "with space",
        "日本é",
        "100%",
        "a%20b",
        "plus+and&",
        "hash#mark",
        "question?mark",
        "c:d",
        "(x) [y] {z}",
        "'q\"",
        "~$;,=",
    ]
    folder = place.root / "odd % näme #1 [x]?"
    for number, name in enumerate(names):
        put(folder, events((number, 1, number)), name + ".parquet")
    put(folder, events((99, 1, 99)), "_hidden.parquet")
    engine.stream("a", weft.files(folder), time="ts", lateness="1 day")
    query = engine.create("SELECT v FROM a")
    opaque = engine.create("SELECT v FROM a WHERE length(trim(cast(v AS string))) > 0")
    summaries = steps(engine)
    assert [bad for summary in summaries for bad in summary.streams["a"].bad_files] == []
    assert {v for (v,) in rows(query)} == set(range(len(names)))
    assert rows(opaque) == rows(query)


def test_stream_names_of_every_kind(place: Place) -> None:
    engine = place.engine()
    names = ["a", "a_0", "a-b", "a.b", "A_", "0"]
    queries = []
    for number, name in enumerate(names):
        folder = place.root / f"s{number}"
        put(folder, events((0, 1, number)))
        if number % 2:
            engine.stream(name, weft.files(folder), time="ts")
        else:
            engine.stream(name, place.spark.readStream.schema(DDL).parquet(str(folder)), time="ts")
        queries.append(engine.create(f"SELECT v FROM `{name}`"))
    steps(engine)
    assert [rows(query) for query in queries] == [[(number,)] for number in range(len(names))]


def _memory_stream(place: Place) -> tuple[Any, DataFrame]:
    spark: Any = place.spark
    schema = StructType.fromDDL(DDL)
    encoder = spark._jvm.org.apache.spark.sql.Encoders.row(
        spark._jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    )
    memory = spark._jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(
        encoder, spark._jsparkSession
    )

    def add(*new: tuple[Any, ...]) -> None:
        found = spark.createDataFrame([(at(t).replace(tzinfo=UTC), *rest) for t, *rest in new], schema)
        memory.addData(spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(found._jdf.collectAsList()))

    return add, DataFrame(memory.toDF(), spark)


def test_any_streaming_frame(place: Place) -> None:
    """Memory, files read by Spark with a filter and new columns, and files read by weft, joined with each other."""
    engine = place.engine()
    add, memory = _memory_stream(place)
    (place.root / "p").mkdir()
    parquet = place.spark.readStream.schema(DDL).parquet(str(place.root / "p"))
    filtered = parquet.where("v > 0").selectExpr(
        "ts", "k + 1 AS k", "v", "upper(name) AS `odd name.x`", "array(k) AS items"
    )
    engine.stream("m", memory, time="ts", lateness="1 minute")
    engine.stream("p", filtered, time="ts", lateness="1 minute")
    place.streams(engine, "f", lateness="1 minute")
    pairs = {
        pair: engine.create(
            f"SELECT x.v, y.v AS w FROM {pair[0]} [RANGE 5 SECONDS] x JOIN {pair[1]} [RANGE 5 SECONDS] y ON x.k = y.k"
        )
        for pair in ("mp", "pf", "fm", "mm")
    }
    named = engine.create("SELECT `odd name.x` AS n, items FROM p WHERE `odd name.x` LIKE 'B%'")
    tables: dict[str, list[pa.Table]] = {"m": [], "p": [], "f": []}
    for second in range(0, 6, 2):
        new = [(second + n / 10, n % 3, 10 * second + n, "x") for n in range(5)]
        add(*new)
        tables["m"].append(events(*new))
        for name in "pf":
            tables[name].append(place.put(name, *((second + n / 7, n % 4, second + n - 1, "bB") for n in range(4))))
        steps(engine)
    whole = {name: pa.concat_tables(parts) for name, parts in tables.items()}
    views = "WITH q AS (SELECT ts, k + 1 AS k, v FROM p WHERE v > 0) "
    for pair, query in pairs.items():
        left, right = (f"{'q' if name == 'p' else name} {alias}" for name, alias in zip(pair, "xy", strict=True))
        sql = f"{views} SELECT x.v, y.v AS w FROM {left} JOIN {right} ON x.k = y.k AND {within('x', 'y', 5)}"
        assert rows(query) == alone(whole, sql), pair
    assert rows(named) == alone(whole, "SELECT upper(name), [k] FROM p WHERE v > 0")


def test_rate(place: Place) -> None:
    engine = place.engine()
    frame = place.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    engine.stream("r", frame, time="timestamp")
    even = engine.create("SELECT value FROM r WHERE value % 2 = 0")
    for _ in range(2):
        summary = engine.step()
        assert summary is not None
        assert summary.rows == 10
    assert rows(even) == ordered((value,) for value in range(0, 20, 2))
    live = place.spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    engine.stream("live", live, time="timestamp", lateness="1 minute")
    odd = engine.create("SELECT value FROM live WHERE value % 2 = 1")
    engine.start("100 milliseconds")
    wait_for(lambda: len(rows(odd)) >= 20, "rows of the rate source arrive")
    found = [value for (value,) in rows(odd)]
    assert len(found) == len(set(found))
    assert all(value % 2 for value in found)


def test_streams_come_while_data_flow_and_come_back(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", lateness="1 hour")
    engine.create("SELECT v FROM a", name="qa")
    engine.start("50 milliseconds")
    place.put("a", (0, 1, 1))
    wait_for(lambda: len(rows(engine.query("qa"))) == 1, "the first stream flows")
    place.streams(engine, "b", lateness="1 hour")
    assert engine.running
    (place.root / "f").mkdir()
    frame = place.spark.readStream.schema(DDL).parquet(str(place.root / "f"))
    engine.stream("f", frame, time="ts", lateness="1 hour")
    assert engine.running
    for other in "bf":
        sql = f"SELECT x.v, y.v AS w FROM a [RANGE 9 SECONDS] x JOIN {other} [RANGE 9 SECONDS] y ON x.k = y.k"
        engine.create(sql, name=f"j{other}")
    for name in "abf":
        place.put(name, (1, 1, 2))
    wait_for(lambda: len(rows(engine.query("jb"))) + len(rows(engine.query("jf"))) == 2, "all streams flow")
    place.close()
    engine = place.engine()
    for call in (engine.step, lambda: engine.start("1 second")):
        with pytest.raises(WeftError, match='"f"') as detached:
            call()
        assert detached.value.code == "detached_stream"
    place.streams(engine, "c", lateness="1 hour")
    frame = place.spark.readStream.schema(DDL).parquet(str(place.root / "f"))
    engine.stream("f", frame, time="ts", lateness="1 hour")
    engine.create("SELECT x.v, y.v AS w FROM c [RANGE 9 SECONDS] x JOIN f [RANGE 9 SECONDS] y ON x.k = y.k", name="jc")
    for name in "abcf":
        place.put(name, (2, 1, 3))
    steps(engine)
    assert rows(engine.query("qa")) == [(1,), (2,), (3,)]
    assert rows(engine.query("jb")) == rows(engine.query("jf")) == [(2, 2), (2, 3), (3, 2), (3, 3)]
    assert rows(engine.query("jc")) == [(3, 3)]


def test_a_stream_is_what_it_was_declared_as(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    folder = place.root / "a"
    for source, options in (
        (weft.files(folder, schema=DDL), {"time": "ts", "lateness": "1 second"}),
        (weft.files(folder, schema="ts timestamp"), {"time": "ts"}),
        (weft.files(folder, schema=DDL, format="csv"), {"time": "ts"}),
    ):
        with pytest.raises(WeftError) as other:
            engine.stream("a", source, **options)
        assert other.value.code == "duplicate_stream"
    for name, source, time, code in (
        ("b", weft.files(folder, schema=DDL), "k", "invalid_stream"),
        ("b", weft.files(folder, schema=DDL), "nothing", "invalid_stream"),
        ("b", place.spark.createDataFrame([], DDL), "ts", "invalid_stream"),
        ("b", "a string", "ts", "invalid_stream"),
        ("b", weft.files(folder, schema="ts timestamp, `weft#x` int"), "ts", "invalid_stream"),
    ):
        with pytest.raises(WeftError) as invalid:
            engine.stream(name, source, time=time)
        assert invalid.value.code == code
    assert [stream.name for stream in engine.streams()] == ["a"]
    for options in ({"format": "xml"}, {"max_files_per_batch": 0}, {"on_bad_file": "ignore"}):
        with pytest.raises(WeftError) as setting:
            weft.files(folder, **options)  # type: ignore[arg-type]
        assert setting.value.code == "invalid_setting"


def test_self_join_late_rows_and_null_keys(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", lateness="2 seconds", max_files_per_batch=1)
    both = engine.create("SELECT x.v, y.v AS w FROM a [RANGE 3 SECONDS] x JOIN a [RANGE 3 SECONDS] y ON x.k = y.k")
    parent = engine.create("SELECT x.v, y.v AS w FROM a [UNBOUNDED] x JOIN a [UNBOUNDED] y ON x.v = y.k WHERE x.v > 9")
    on_time = [place.put("a", (0, 1, 10), (5, None, 11), (1, 1, 12), (4, 10, 13))]
    late = [(2.999999, 1, 97), (0, 1, 98)]
    place.put("a", *late, (None, 1, 99))
    on_time.append(events((3, 1, 14), (4.5, None, 15), (5, 11, None), (3, 12, 16)))
    put(place.root / "a", on_time[-1])
    summaries = steps(engine)
    assert [(s.rows, s.late, s.streams["a"].timeless) for s in summaries] == [(4, 0, 0), (3, 2, 1), (4, 0, 0)]
    whole = {"a": on_time}
    assert rows(both) == alone(whole, f"SELECT x.v, y.v AS w FROM a x JOIN a y ON x.k = y.k AND {within('x', 'y', 3)}")
    assert rows(parent) == alone(whole, "SELECT x.v, y.v AS w FROM a x JOIN a y ON x.v = y.k WHERE x.v > 9")
    assert (10, 13) in rows(parent)


def _file_mtime(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def test_files_are_taken_once_in_the_order_they_came(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a", max_files_per_batch=2)
    query = engine.create("SELECT v FROM a")
    paths = [put(place.root / "a", events((n, 1, n)), f"{9 - n}.parquet") for n in range(5)]
    assert sorted(paths, key=_file_mtime) == paths
    assert [summary.rows for summary in steps(engine)] == [2, 2, 1]
    assert rows(query) == [(n,) for n in range(5)]
    paths[0].unlink()
    assert engine.step() is None
    assert rows(query) == [(n,) for n in range(5)]
