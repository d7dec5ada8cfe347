"""Source files: every format, values as declared or not at all, and what happens to files that do not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from weft.errors import BadFile
from weft.execution.input.conform import WantedColumns
from weft.execution.input.decode import decode_files, path_from_spark, sample_file
from weft.plan.stream import FileSource, Format, Stream
from weft.sql import parse_schema

NOON, EPOCH = datetime(2020, 2, 29, 12, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)
DDL = "ts timestamp, k bigint, d decimal(10,2), f double, s string, b boolean, day date"
VALUES = [
    {"ts": NOON, "k": 1, "d": Decimal("1.25"), "f": 0.5, "s": "é,\"'", "b": True, "day": date(2020, 2, 29)},
    {"ts": NOON, "k": None, "d": None, "f": None, "s": None, "b": None, "day": None},
]
ARROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("d", pa.decimal128(10, 2)), ("f", pa.float64()),
     ("s", pa.string()), ("b", pa.bool_()), ("day", pa.date32())]
)  # fmt: skip
TEXTS = {
    Format.JSON: json.dumps({"ts": "2020-02-29T12:00:00Z", "k": 1, "d": "1.25", "f": 0.5, "s": "é,\"'", "b": True,
                             "day": "2020-02-29"}) + '\n{"ts": "2020-02-29T13:00:00+01:00"}\n',
    Format.CSV: 'ts,k,d,f,s,b,day\n2020-02-29 12:00:00,1,1.25,0.5,"é,""\'",true,2020-02-29\n'
                "2020-02-29T12:00:00,,,,,,\n",
}  # fmt: skip


def write(path: Path, content: Any, format_: Format) -> str:
    """A file of some content: a table, or text or bytes as they are."""
    if isinstance(content, str | bytes):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    elif format_ is Format.PARQUET:
        pa.parquet.write_table(content, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, content.schema) as writer:
            writer.write_table(content)
    return str(path)


def read(folder: Path, content: Any, ddl: str, format_: Format = Format.PARQUET, **options: str) -> pa.Table:
    """The rows of one file; whatever would be set aside raises."""
    path = write(folder / "file", content, format_)
    source = FileSource(str(folder), format_, options=tuple(options.items()), on_bad_file="fail")
    return table_of(Stream("s", parse_schema(ddl), "", timedelta(0), None, source), path)


def table_of(found: Stream, *paths: str) -> pa.Table:
    pieces = list(decode_files(found, paths, columns=found.schema.names(), quarantine=""))
    return pa.concat_tables([piece.table for piece in pieces])


def refused(folder: Path, content: Any, ddl: str, format_: Format = Format.PARQUET) -> str:
    with pytest.raises(BadFile, match=f"cannot be read as {format_.value}") as caught:
        read(folder, content, ddl, format_)
    return caught.value.detail


# ---- formats


@pytest.mark.parametrize("format_", list(Format))
def test_every_format_gives_the_declared_types(tmp_path: Path, format_: Format) -> None:
    content = TEXTS.get(format_) or pa.Table.from_pylist(VALUES, schema=ARROW)
    table = read(tmp_path, content, DDL, format_)
    assert table.schema.equals(ARROW)
    assert table.to_pylist() == VALUES


def test_arrow_streams_are_read_as_well_as_arrow_files(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(VALUES, schema=ARROW)
    with pa.OSFile(str(tmp_path / "file"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    source = FileSource(str(tmp_path), Format.ARROW)
    found = Stream("s", parse_schema(DDL), "ts", timedelta(0), None, source)
    assert table_of(found, str(tmp_path / "file")).to_pylist() == VALUES
    assert sample_file(source, str(tmp_path / "file")).schema == ARROW


@pytest.mark.parametrize("format_", list(Format))
def test_only_the_wanted_columns_come_in_the_order_of_the_schema(tmp_path: Path, format_: Format) -> None:
    content = TEXTS.get(format_) or pa.Table.from_pylist(VALUES, schema=ARROW)
    assert read(tmp_path, content, "s string, k bigint", format_).column_names == ["s", "k"]


@pytest.mark.parametrize("format_", list(Format))
def test_names_are_found_whatever_their_case(tmp_path: Path, format_: Format) -> None:
    texts = {Format.JSON: '{"KEY": "007", "When": "2020-02-29"}\n', Format.CSV: "KEY,When\n007,2020-02-29\n"}
    content = texts.get(format_) or pa.table({"KEY": ["007"], "When": ["2020-02-29"]})
    assert read(tmp_path, content, "key string, wHEN string", format_).to_pylist() == [
        {"key": "007", "wHEN": "2020-02-29"}
    ]


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.ARROW, Format.CSV])
def test_two_columns_for_one_are_refused(tmp_path: Path, format_: Format) -> None:
    content = "k,K\n1,2\n" if format_ is Format.CSV else pa.table({"k": [1], "K": [2]})
    assert "more than once" in refused(tmp_path, content, "k bigint", format_)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"k": 1}\n{"K": 2}\n', [1, None]),
        ('{"K": 1}\n{"k": 2}\n{"K": 3}\n', [1, None, 3]),
        ('{"K": 1, "k": 2}\n', [2]),
    ],
)
def test_a_json_file_spells_names_as_its_first_record(tmp_path: Path, text: str, values: list[int | None]) -> None:
    assert read(tmp_path, text, "k bigint", Format.JSON)["k"].to_pylist() == values


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.ARROW])
def test_a_missing_column_is_null_but_not_the_event_time(tmp_path: Path, format_: Format) -> None:
    table = read(tmp_path, pa.table({"k": [1]}), "k bigint, other string, list array<int>", format_)
    assert table.to_pylist() == [{"k": 1, "other": None, "list": None}]
    assert table.schema.types == [pa.int64(), pa.string(), pa.list_(pa.int32())]
    source = FileSource(str(tmp_path), format_, on_bad_file="fail")
    with pytest.raises(BadFile) as caught:
        table_of(
            Stream("s", parse_schema("k bigint, ts timestamp"), "ts", timedelta(0), None, source), f"{tmp_path}/file"
        )
    assert caught.value.detail == 'column "ts" is missing'


def test_a_missing_column_of_a_csv_file_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "k\n1\n", "k bigint, other string", Format.CSV) == 'column "other" is missing'


def test_a_missing_field_of_a_json_record_is_null(tmp_path: Path) -> None:
    table = read(
        tmp_path, '{"k": 1}\n{"s": "x", "unknown": [1]}\n', "k int, s string, t array<int>, d date", Format.JSON
    )
    assert table.to_pylist() == [
        {"k": 1, "s": None, "t": None, "d": None}, {"k": None, "s": "x", "t": None, "d": None}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("format_", "content", "ddl"),
    [
        (Format.JSON, "", "ts timestamp, t array<struct<a:int>>, d date"),
        (Format.JSON, "\n\n", "ts timestamp, t array<struct<a:int>>, d date"),
        (Format.CSV, "", "k bigint, ts timestamp"),
        (Format.CSV, "k,ts\n", "k bigint, ts timestamp"),
        (Format.CSV, "TS,K\n", "k bigint, ts timestamp"),
        (Format.PARQUET, pa.table({"k": pa.array([], pa.int64())}), "k bigint"),
        (Format.ARROW, pa.table({"k": pa.array([], pa.int32())}), "k bigint"),
    ],
)
def test_empty_files_have_no_rows(tmp_path: Path, format_: Format, content: Any, ddl: str) -> None:
    table = read(tmp_path, content, ddl, format_)
    assert table.num_rows == 0
    assert table.schema == WantedColumns(tuple(parse_schema(ddl))).empty().schema


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.ARROW])
def test_a_binary_file_of_nothing_is_torn(tmp_path: Path, format_: Format) -> None:
    assert refused(tmp_path, b"", "k bigint", format_)


def test_nested_columns_are_read_as_declared(tmp_path: Path) -> None:
    ddl = "t array<int>, m struct<a:bigint,b:string>"
    value = {"t": [1, None], "m": {"a": 5, "b": "x"}}
    types = [pa.list_(pa.int32()), pa.struct([("a", pa.int64()), ("b", pa.string())])]
    for format_ in (Format.PARQUET, Format.ARROW, Format.JSON):
        content = json.dumps(value) + "\n" if format_ is Format.JSON else pa.Table.from_pylist([value])
        table = read(tmp_path, content, ddl, format_)
        assert (table.schema.types, table.to_pylist()) == (types, [value])


def test_csv_options(tmp_path: Path) -> None:
    table = read(tmp_path, 'k;s\n1;NA\n2;""\n', "k int, s string", Format.CSV, sep=";", nullValue="NA")
    assert table.to_pylist() == [{"k": 1, "s": None}, {"k": 2, "s": ""}]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeffK,s\n1,007\n", "k int, s string", Format.CSV).to_pylist() == [{"k": 1, "s": "007"}]


# ---- values


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.ARROW])
@pytest.mark.parametrize(
    ("found", "ddl", "value"),
    [
        (pa.array([5], pa.int8()), "bigint", 5),
        (pa.array([5], pa.int64()), "tinyint", 5),
        (pa.array([5], pa.uint64()), "int", 5),
        (pa.array([5.0]), "int", 5),
        (pa.array([2**53]), "double", float(2**53)),
        (pa.array([0.5], pa.float32()), "double", 0.5),
        (pa.array([Decimal("12")]), "int", 12),
        (pa.array([5], pa.int8()), "decimal(5,2)", Decimal("5.00")),
        (pa.array([Decimal("1.5")]), "decimal(10,2)", Decimal("1.50")),
        (pa.array([date(2020, 2, 29)]), "timestamp", datetime(2020, 2, 29, tzinfo=UTC)),
        (pa.array([NOON], pa.timestamp("ns", "Europe/Berlin")), "timestamp", NOON),
        (pa.array([1_999], pa.timestamp("ns")), "timestamp", EPOCH + timedelta(microseconds=1)),
        (pa.array([-1], pa.timestamp("ns", "UTC")), "timestamp", EPOCH - timedelta(microseconds=1)),
        (
            pa.array([1_999], pa.timestamp("ns")),
            "timestamp_ntz",
            (EPOCH + timedelta(microseconds=1)).replace(tzinfo=None),
        ),
        (pa.array(["2020-02-29T12:00:00.123456789Z"]), "timestamp", NOON + timedelta(microseconds=123456)),
        (pa.array([NOON], pa.timestamp("ms")), "timestamp", NOON),
        (pa.array([NOON], pa.timestamp("s", "UTC")), "timestamp_ntz", NOON.replace(tzinfo=None)),
        (pa.array(["2020-02-29T12:00:00Z"]), "timestamp", NOON),
        (pa.array(["x"], pa.large_string()), "string", "x"),
        (pa.array(["x"]).dictionary_encode(), "string", "x"),
        (pa.array([7]).dictionary_encode(), "bigint", 7),
        (pa.array([b"x"], pa.binary(1)), "binary", b"x"),
        (pa.nulls(1), "int", None),
    ],
)
def test_casts_that_keep_the_value(tmp_path: Path, found: pa.Array, ddl: str, value: object, format_: Format) -> None:
    table = read(tmp_path, pa.table({"v": found}), f"v {ddl}", format_)
    assert table.to_pylist() == [{"v": value}]


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.ARROW])
@pytest.mark.parametrize(
    ("found", "ddl"),
    [
        (pa.array([1.5]), "bigint"),
        (pa.array([2**40]), "int"),
        (pa.array([-1]), "binary"),
        (pa.array([2**63], pa.uint64()), "bigint"),
        (pa.array([2**53 + 1]), "double"),
        (pa.array([2**24 + 1]), "float"),
        (pa.array([0.1]), "float"),
        (pa.array([1e300]), "float"),
        (pa.array([0.1]), "decimal(10,2)"),
        (pa.array([Decimal("0.1")]), "double"),
        (pa.array([Decimal("1.234")]), "decimal(10,2)"),
        (pa.array([Decimal("123.4")]), "decimal(3,1)"),
        (pa.array([NOON], pa.timestamp("us")), "date"),
        (pa.array(["1"]), "int"),
        (pa.array([1]), "string"),
        (pa.array([1]).dictionary_encode(), "string"),
        (pa.array([True]), "int"),
        (pa.array([1]), "boolean"),
        (pa.array([b"x"]), "string"),
        (pa.array(["x"]), "binary"),
        (pa.array([1]), "timestamp"),
        (pa.array(["yesterday"]), "timestamp"),
        (pa.array(["yesterday"]), "date"),
        (pa.array([["1"]]), "array<int>"),
        (pa.array([[0.1]]), "array<float>"),
        (pa.array([{"a": "1"}]), "struct<a:int>"),
        (pa.array([1]), "array<int>"),
    ],
)
def test_casts_that_could_change_a_value_are_refused(
    tmp_path: Path, found: pa.Array, ddl: str, format_: Format
) -> None:
    detail = refused(tmp_path, pa.table({"v": found}), f"v {ddl}", format_)
    assert 'column "v" is ' in detail
    assert f", not {ddl}: " in detail


@pytest.mark.parametrize(
    ("text", "ddl"),
    [
        ('{"v": "x"}', "int"), ('{"v": 1}', "string"), ('{"v": 1.5}', "int"), ('{"v": 3000000000}', "int"),
        ('{"v": 1577836800}', "timestamp"), ('{"v": "1 o\'clock"}', "timestamp"), ('{"v": true}', "int"),
        ('{"v": "2020-02-30"}', "date"), ('{"v": 1.255}', "decimal(10,2)"), ('{"v": {}}', "array<int>"),
        ('{"v": ', "int"), ("[1, 2]", "int"), ("5", "int"), ('{"v": 1} {"v": ', "int"), (b'{"v": "\xff"}', "string"),
    ],
)  # fmt: skip
def test_json_that_does_not_fit(tmp_path: Path, text: str | bytes, ddl: str) -> None:
    assert refused(tmp_path, text, f"v {ddl}", Format.JSON)


@pytest.mark.parametrize(
    ("text", "ddl"),
    [
        ("v\nx\n", "int"), ("v\n1.5\n", "int"), ("v\n3000000000\n", "int"), ("v\n1.255\n", "decimal(10,2)"),
        ("v\nmaybe\n", "boolean"), ("v\n2020-02-30\n", "date"), ("v\nnow\n", "timestamp"), ("v,w\n1\n", "int"),
        (b"v\n\xff\n", "string"), ("v\n1,2\n", "int"),
    ],
)  # fmt: skip
def test_csv_that_does_not_fit(tmp_path: Path, text: str | bytes, ddl: str) -> None:
    assert refused(tmp_path, text, f"v {ddl}", Format.CSV)


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.ARROW])
def test_torn_files(tmp_path: Path, format_: Format) -> None:
    table = pa.table({"v": list(range(1000))})
    whole = Path(write(tmp_path / "whole", table, format_)).read_bytes()
    for content in (whole[: len(whole) // 2], whole[:10], b"\x00" * 100, b"PAR1PAR1", b"ARROW1\x00\x00"):
        assert refused(tmp_path, content, "v bigint", format_)


# ---- many files of a stream


def stream(folder: Path, on_bad_file: str = "quarantine", ddl: str = "ts timestamp, k bigint") -> Stream:
    source = FileSource(str(folder), Format.JSON, on_bad_file=on_bad_file)
    return Stream("s", parse_schema(ddl), "ts", timedelta(0), None, source)


def read_all(found: Stream, urls: Sequence[str], quarantine: Path) -> tuple[pa.Table, tuple[str, ...]]:
    pieces = list(decode_files(found, urls, columns=found.schema.names(), quarantine=str(quarantine)))
    return pa.concat_tables([piece.table for piece in pieces]), pieces[-1].bad_files


def test_a_bad_file_is_set_aside_and_the_others_are_read(tmp_path: Path) -> None:
    good, bad = tmp_path / "good file", tmp_path / "bad"
    good.write_text('{"ts": "2020-02-29T12:00:00Z", "k": 1}\n')
    bad.write_text('{"ts": "never"}\n')
    table, aside = read_all(stream(tmp_path), [f"file:{good}", f"file://{bad}", str(good)], tmp_path / "quarantine")
    assert table.to_pylist() == [{"ts": NOON, "k": 1}] * 2
    assert [text.split(": ")[0] for text in aside] == [str(bad)]
    copy, reason = sorted((tmp_path / "quarantine" / "s").iterdir())
    assert copy.name.endswith("-bad")
    assert reason.name == copy.name + ".reason"
    assert copy.read_text() == bad.read_text()
    assert "[bad_file]" in reason.read_text()
    assert str(bad) in reason.read_text()


def test_a_bad_file_fails_the_batch_if_the_stream_says_so(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("{")
    with pytest.raises(BadFile, match="cannot be read as json"):
        read_all(stream(tmp_path, "fail"), [str(tmp_path / "bad")], tmp_path / "quarantine")
    (tmp_path / "bad").write_text('{"k": 1}\n{"k": "x"}\n')
    with pytest.raises(BadFile) as caught:
        read_all(stream(tmp_path, "fail"), [str(tmp_path / "bad")], tmp_path / "quarantine")
    assert caught.value.detail.startswith("line 2: ")
    assert not (tmp_path / "quarantine").exists()


def test_no_readable_file_is_an_empty_table_of_the_declared_types(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("{")
    found = stream(tmp_path, ddl="ts timestamp, t array<int>, i interval day")
    table, aside = read_all(found, [str(tmp_path / "bad")], tmp_path / "quarantine")
    assert table.num_rows == 0
    assert table.schema.types[:2] == [pa.timestamp("us", "UTC"), pa.list_(pa.int32())]
    assert len(aside) == 1
    assert read_all(found, [], tmp_path)[0].schema == table.schema


def test_files_of_one_stream_fit_together_whatever_each_looks_like(tmp_path: Path) -> None:
    for name, text in {
        "a": '{"t": [1]}',
        "b": '{"t": []}',
        "c": '{"t": null}',
        "d": "{}",
        "e": '{"T": [2]}',
        "f": "",
    }.items():
        (tmp_path / name).write_text(text)
    found = stream(tmp_path, ddl="ts timestamp, t array<int>")
    table, aside = read_all(found, [str(tmp_path / name) for name in "abcdef"], tmp_path / "quarantine")
    assert (table["t"].to_pylist(), aside) == ([[1], [], None, None, [2]], ())


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:/a b/c", "/a b/c"), ("file:///a/b", "/a/b"), ("/a/b", "/a/b"), ("file:/a%20b#c?d", "/a%20b#c?d"),
    ],
)  # fmt: skip
def test_paths_as_spark_reports_them(url: str, path: str) -> None:
    assert path_from_spark(url) == path
