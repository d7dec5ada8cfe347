"""Schema strings and durations of settings."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidSetting, InvalidStream
from weft.plan.types import BIGINT, STRING, TIMESTAMP, DataType, Field, Kind
from weft.plan.window import duration_text
from weft.sql import parse_duration, parse_schema


def test_a_schema() -> None:
    schema = parse_schema("ts timestamp, userID bigint, price decimal(10,2), tags array<string>")
    assert schema.fields == (
        Field("ts", TIMESTAMP),
        Field("userID", BIGINT),
        Field("price", DataType(Kind.DECIMAL, 10, 2)),
        Field("tags", DataType(Kind.OTHER, text="array<string>")),
    )


@pytest.mark.parametrize(
    ("text", "ddl"),
    [
        ("INT", "int"), ("integer", "int"), ("Long", "bigint"), ("short", "smallint"), ("byte", "tinyint"),
        ("real", "float"), ("bool", "boolean"), ("decimal", "decimal(10,0)"), ("numeric( 5 )", "decimal(5,0)"),
        ("DEC(38, 38)", "decimal(38,38)"), ("varchar(10)", "string"), ("char(3)", "string"), ("binary", "binary"),
        ("timestamp_ltz", "timestamp"), ("timestamp_ntz", "timestamp_ntz"), ("date", "date"),
        ("MAP<STRING, ARRAY<INT>>", "map<string,array<int>>"),
        ("struct<a: int, `b c`: decimal(3,1), D struct<>>", "struct<a:int,`b c`:decimal(3,1),D:struct<>>"),
        ("interval day to second", "interval day to second"), ("variant", "variant"), ("time(6)", "time(6)"),
    ],
)  # fmt: skip
def test_types(text: str, ddl: str) -> None:
    assert parse_schema(f"x {text}").fields[0].type.ddl() == ddl


def test_names_and_suffixes() -> None:
    schema = parse_schema("`a b``c` int NOT NULL COMMENT 'it\\'s, ok', d: string,\n\té double COMMENT \"x\"")
    assert schema.names() == ("a b`c", "d", "é")
    assert schema.fields[1].type == STRING


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("", "empty"), ("   ", "empty"), ("ts", 'type of column "ts" is missing'), ("ts timestmp", "timestmp"),
        ("a int, A string", 'column "A" is declared twice'), ("a int, a string", 'column "a" is declared twice'),
        ("a int,", "column name is missing"),
        ("a int b int", 'unexpected "b int"'), ("a decimal(39,1)", "decimal(39,1)"), ("a decimal(3,4)", "out of range"),
        ("a array<int", 'expected ">"'), ("a map<int>", 'expected ","'), ("a array", 'expected "<"'),
        ("a int; DROP", "int;"), ("`a int", "column name is missing"), ("a " + "array<" * 60 + "int", "deeper"),
        ("a int)", "unexpected"), ("a 'int'", "missing"), ("a timely", "timely"),
    ],
)  # fmt: skip
def test_bad_schemas(ddl: str, message: str) -> None:
    with pytest.raises(InvalidStream) as caught:
        parse_schema(ddl)
    assert message in caught.value.message


def test_a_schema_reads_its_own_text() -> None:
    schema = parse_schema("a int, `b c` decimal(4,1), d map<string,array<int>>, e timestamp_ntz")
    assert parse_schema(schema.ddl()) == schema


@given(st.text(max_size=60))
def test_any_text_is_a_schema_or_an_error(text: str) -> None:
    with suppress(InvalidStream):
        parse_schema(text)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("5 seconds", timedelta(seconds=5)), ("1 minute", timedelta(minutes=1)),
        ("250 ms", timedelta(milliseconds=250)),
        ("2 hours 30 minutes", timedelta(hours=2, minutes=30)), ("1h30m", timedelta(minutes=90)),
        ("0 seconds", timedelta(0)), ("0.5 s", timedelta(seconds=0.5)), ("1 day, 2 hours", timedelta(hours=26)),
        ("3 WEEKS", timedelta(weeks=3)), ("7us", timedelta(microseconds=7)), (" .25 sec ", timedelta(seconds=0.25)),
        (timedelta(seconds=3), timedelta(seconds=3)),
    ],
)  # fmt: skip
def test_durations(text: str | timedelta, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    ["", "5", "seconds", "5 parsecs", "five seconds", "-5 seconds", "1 2 seconds", "5 seconds!", "0.0000001 s", "1e3 s",
     "99999999 days", "9" * 300 + " s", "5 s" * 1000, timedelta(-1), timedelta(days=99999), 5, None, "1 month"],
)  # fmt: skip
def test_bad_durations(text: object) -> None:
    with pytest.raises(InvalidSetting):
        parse_duration(text)  # type: ignore[arg-type]


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36_500)))
def test_durations_read_their_own_text(duration: timedelta) -> None:
    assert parse_duration(duration_text(duration)) == duration


@given(st.text(alphabet="0123456789. smhdµ-+,", max_size=40))
def test_any_text_is_a_duration_or_an_error(text: str) -> None:
    with suppress(InvalidSetting):
        assert parse_duration(text) >= timedelta(0)
