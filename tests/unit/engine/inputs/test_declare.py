"""Declarations of streams: what is wrong is said before anything is changed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from weft.engine.inputs.declare import declare_stream, files, parse_ahead
from weft.errors import DuplicateStream, InvalidSetting, InvalidStream
from weft.plan.stream import FileSource, Format, Stream
from weft.plan.types import Kind

DDL = "TS timestamp, k bigint"


def declare(source: Any, *, time: str = "ts", existing: Stream | None = None, lateness: int = 5) -> Stream:
    return declare_stream("s", source, time=time, lateness=timedelta(seconds=lateness), retain=None, existing=existing)


@pytest.mark.parametrize("path", ["s3a://bucket/in", "hdfs:///in", "file:/in"])
def test_an_address_is_no_path(path: str) -> None:
    with pytest.raises(InvalidSetting, match="is not a local path"):
        files(path, schema=DDL)


def test_files_are_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = files("in", format="csv", schema=DDL, options={"sep": ";", "nullValue": "-"}, max_files_per_batch=3)
    assert found.source == FileSource(
        str(tmp_path / "in"), Format.CSV, 3, (("nullValue", "-"), ("sep", ";")), "quarantine"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "xml"}, "format 'xml' is not one weft reads"),
        ({"on_bad_file": "ignore"}, "on_bad_file is 'ignore'"),
        ({"max_files_per_batch": 0}, "max_files_per_batch is 0"),
        ({"format": "csv", "options": {"sep": "||"}}, "option sep is"),
        ({"format": "csv", "options": {"sep": ""}}, "option sep is"),
    ],
)
def test_settings_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        files("in", **arguments)


def test_the_time_column_is_found_whatever_the_case() -> None:
    assert declare(files("in", schema=DDL)).time == "TS"
    assert declare(files("in", schema="ts timestamp_ntz, k int")).schema.fields[0].type.kind is Kind.TIMESTAMP_NTZ


@pytest.mark.parametrize(
    ("ddl", "time", "message"),
    [
        (DDL, "when", 'time column "when" does not exist in stream "s"'),
        (DDL, "k", 'time column "k" of stream "s" has type bigint'),
        ("ts timestamp, `weft#t` int", "ts", 'column "weft#t" of stream "s" has a reserved name'),
        ("ts timestamp, a int, A int", "ts", "declared twice"),
        ("ts", "ts", "the type"),
    ],
)
def test_schemas_that_do_not_fit(ddl: str, time: str, message: str) -> None:
    with pytest.raises(InvalidStream, match=message):
        declare(files("in", schema=ddl), time=time)


def test_the_same_declaration_again_is_harmless_and_another_is_not() -> None:
    first = declare(files("in", schema=DDL))
    assert declare(files("in", schema=DDL), existing=first) == first
    assert declare(files("in"), existing=first) == first, "the schema is known already"
    for other in (
        files("elsewhere", schema=DDL),
        files("in", schema=DDL + ", x int"),
        files("in", format="json", schema=DDL),
    ):
        with pytest.raises(DuplicateStream, match='stream "s" exists with another definition'):
            declare(other, existing=first)
    with pytest.raises(DuplicateStream):
        declare(files("in", schema=DDL), existing=first, lateness=6)


@pytest.mark.parametrize("source", [None, "path", object(), 5])
def test_a_source_is_files_or_a_streaming_frame(source: Any) -> None:
    with pytest.raises(InvalidStream, match="not a streaming DataFrame"):
        declare(source)


def test_a_schema_is_inferred_from_the_first_file_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"not parquet")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"")
    table = pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "n": pa.array([1], pa.uint8()), "t": [["x"]]})
    pa.parquet.write_table(table, tmp_path / "b.parquet")
    found = declare(files(tmp_path))
    assert [(field.name, field.type.ddl()) for field in found.schema] == [
        ("ts", "timestamp"), ("n", "smallint"), ("t", "array<string>"),
    ]  # fmt: skip


@pytest.mark.parametrize("format_", list(Format))
def test_an_empty_file_says_nothing_about_the_schema(tmp_path: Path, format_: Format) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(InvalidStream, match="there is no readable file"):
        declare(files(tmp_path, format=format_.value))


def test_a_schema_cannot_be_inferred_from_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InvalidStream, match="cannot be inferred") as caught:
            declare(files(path))
        assert "schema=" in caught.value.hint


def test_what_goes_by_the_clock_can_be_declared_anew(tmp_path: Path) -> None:
    first = declare(files(tmp_path, schema=DDL))
    assert first.max_ahead == timedelta(hours=1)
    minute = timedelta(minutes=1)
    changed = declare_stream(
        "s", files(tmp_path), time="ts", lateness=timedelta(seconds=5), retain=None, existing=first,
        idle_timeout=minute, max_ahead=None,
    )  # fmt: skip
    assert (changed.idle_timeout, changed.max_ahead, changed.lateness) == (minute, None, first.lateness)


def test_how_far_ahead_as_a_configuration_says_it() -> None:
    assert parse_ahead("") == timedelta(hours=1)
    assert parse_ahead("unlimited") is None
    assert parse_ahead("2 days") == timedelta(days=2)
    with pytest.raises(InvalidSetting):
        parse_ahead("for ever")


def test_a_stream_without_lateness_says_what_that_means(tmp_path: Path) -> None:
    assert declare(files(tmp_path, schema=DDL)).notices == ()
    (notice,) = declare(files(tmp_path, schema=DDL), lateness=0).notices
    assert 'stream "s" has lateness 0' in notice
