"""One odd row does not set a file aside: it is left out, counted and kept with its place and the reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.execution.input import decode, quarantine, text_blocks
from weft.execution.input.decode import decode_files
from weft.execution.input.pieces import Piece
from weft.plan.stream import FileSource, Format, Stream
from weft.sql import parse_schema

NOON = datetime(2020, 2, 29, 12, tzinfo=UTC)
DDL = "ts timestamp, k bigint, s string"
GOOD_JSON = '{"ts": "2020-02-29T12:00:00Z", "k": %d, "s": "x"}\n'


def stream(folder: Path, format_: Format, ddl: str = DDL) -> Stream:
    return Stream("s", parse_schema(ddl), "ts", timedelta(0), None, FileSource(str(folder), format_))


def read(folder: Path, text: str | bytes, format_: Format, ddl: str = DDL) -> tuple[pa.Table, Piece]:
    path = folder / "file"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = stream(folder, format_, ddl)
    pieces = list(decode_files(found, [str(path)], columns=found.schema.names(), quarantine=str(folder / "aside")))
    return pa.concat_tables([piece.table for piece in pieces]), pieces[-1]


def letters(folder: Path) -> list[dict[str, Any]]:
    (path,) = (folder / "aside" / "s").glob("*.rows.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"ts": "2020-02-29T12:00:00Z", "k": "one"}', "JSON parse error"),
        ('{"ts": "2020-02-29T12:00:00Z", "k": 1.5}', "1.5"),
        ('{"ts": "yesterday", "k": 1}', 'column "ts" is string, not timestamp'),
        ('{"ts": "2020-02-30T12:00:00Z", "k": 1}', 'column "ts" is string, not timestamp'),
        ('{"ts": 5, "k": 1}', "JSON parse error"),
        ('{"ts": "2020-02-29T12:00:00Z", "k": ', "JSON parse error"),
        ("[1, 2]", "JSON parse error"),
        ("nonsense", "JSON parse error"),
        (b'{"s": "\xff"}', "UTF8"),
        ('{"k": 1, "k": 2}', ""),
        ("[" * 100_000, "JSON parse error"),
    ],
)
def test_a_json_row_that_does_not_fit(tmp_path: Path, bad: str | bytes, reason: str) -> None:
    line = bad.encode() if isinstance(bad, str) else bad
    table, piece = read(
        tmp_path, (GOOD_JSON % 1).encode() + b"\n" + line + b"\n" + (GOOD_JSON % 2).encode(), Format.JSON
    )
    assert table["k"].to_pylist() == [1, 2]
    assert (piece.bad_rows, piece.bad_files) == (1, ())
    head, letter = letters(tmp_path)
    assert head == {"file": str(tmp_path / "file"), "bad_rows": 1, "kept": 1}
    assert letter["at"] == "line 3"
    assert reason in letter["reason"]
    assert letter["text"] == line.decode(errors="replace")[:4000]


@pytest.mark.parametrize(
    "bad", ["2020-02-29,1,x,more", "2020-02-29,1", "2020-02-29,one,x", "never,1,x", "2020-02-29,1.5,x"]
)
def test_a_csv_row_that_does_not_fit(tmp_path: Path, bad: str) -> None:
    text = f'ts,k,s\n2020-02-29,1,"a\nb"\n{bad}\n\n2020-02-29,2,"c, ""d"""\n'
    table, piece = read(tmp_path, text, Format.CSV)
    assert table.select(["k", "s"]).to_pylist() == [{"k": 1, "s": "a\nb"}, {"k": 2, "s": 'c, "d"'}]
    assert (piece.bad_rows, piece.bad_files) == (1, ())
    assert letters(tmp_path)[1]["at"] == "line 4"
    assert letters(tmp_path)[1]["text"] == bad


@pytest.mark.parametrize("block", [40, 1 << 20])
def test_a_quote_without_a_partner_spoils_its_own_line_only(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK", block)
    text = 'ts,k,s\n2020-02-29,1,5" pipe\n2020-02-29,4,"b\n2020-02-29,2,c\n2020-02-29,3,d\n'
    table, piece = read(tmp_path, text, Format.CSV)
    assert table["k"].to_pylist() == [1, 2, 3]
    assert (piece.bad_rows, letters(tmp_path)[1]["at"]) == (1, "line 3")
    assert letters(tmp_path)[1]["reason"] == "a quote is not closed"


def test_a_quote_without_a_partner_does_not_hold_the_file_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK", 1 << 10)
    monkeypatch.setattr(text_blocks, "LONGEST_QUOTE", 1 << 12)
    path = tmp_path / "file"
    path.write_text('ts,k,s\n2020-02-29,1,"open\n' + "2020-02-29,2,x\n" * 10_000)
    assert max(block.end for block in text_blocks.blocks(str(path), separator=",")) < 1 << 14
    table, piece = read(tmp_path, path.read_text(), Format.CSV)
    assert (table.num_rows, piece.bad_rows) == (10_000, 1)


def rows_by_block(folder: Path, text: str, block: int) -> tuple[list[dict[str, Any]], int]:
    """The rows of a file that is read in blocks of this size, and how many were set aside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK", block)
        table, piece = read(folder, text, Format.CSV)
    return table.to_pylist(), piece.bad_rows


def test_doubled_quotes_at_the_end_of_a_block_close_nothing(tmp_path: Path) -> None:
    """A stray quote before them makes the number of all quotes even while one is open."""
    text = 'ts,k,s\n2020-02-29,1,5" pipe\n2020-02-29,2,"foo ""bar\nbaz"\n2020-02-29,3,x\n'
    for block in range(20, len(text) + 2):
        found, bad = rows_by_block(tmp_path, text, block)
        assert [(row["k"], row["s"]) for row in found] == [(1, '5" pipe'), (2, 'foo "bar\nbaz'), (3, "x")], block
        assert bad == 0


PLAIN = st.text('a" 日', max_size=4).filter(lambda text: not text.startswith('"'))
QUOTED = st.text('a",\n', max_size=6).map(lambda text: '"' + text.replace('"', '""') + '"')
ODD = st.sampled_from(['"', '"a', '"a"b', '""a', "a\r"])
NUMBERS, ENDS = st.sampled_from(["1", '"2"', "", "x"]), st.sampled_from(["\n", "\r\n"])
LINES = st.lists(st.tuples(NUMBERS, PLAIN | QUOTED | PLAIN | QUOTED | ODD, ENDS), min_size=1, max_size=8)


@given(lines=LINES, block=st.integers(1, 60))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_do_not_depend_on_the_size_of_blocks(
    tmp_path: Path, lines: list[tuple[str, str, str]], block: int
) -> None:
    text = "ts,k,s\n" + "".join(f"2020-02-29,{k},{s}{end}" for k, s, end in lines)
    assert rows_by_block(tmp_path, text, block) == rows_by_block(tmp_path, text, 1 << 20)


def test_undeclared_json_fields_may_be_anything(tmp_path: Path) -> None:
    more = '{"k": 1, "x": 5}\n{"k": 2, "x": "text"}\n{"k": 3, "x": {"y": []}}\n'
    table, piece = read(tmp_path, more, Format.JSON)
    assert table["k"].to_pylist() == [1, 2, 3]
    assert piece.bad_rows == 0


@pytest.mark.parametrize("size", [3 << 20, 20 << 20])
def test_long_rows(tmp_path: Path, size: int) -> None:
    long = "y" * size
    rows = "".join(f'{{"k": {k}, "s": "{"x" if k != 2 else long}"}}\n' for k in range(5))
    table, piece = read(tmp_path, rows, Format.JSON)
    assert (table["k"].to_pylist(), piece.bad_rows) == ([0, 1, 2, 3, 4], 0)
    assert table["s"][2].as_py() == long
    text = "ts,k,s\n" + "".join(f'2020-02-29,{k},"{"x" if k != 2 else long}\n"\n' for k in range(5))
    table, piece = read(tmp_path, text, Format.CSV)
    assert (table["k"].to_pylist(), piece.bad_rows) == ([0, 1, 2, 3, 4], 0)
    assert table["s"][2].as_py() == long + "\n"


def test_a_row_without_end_is_a_bad_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK", 1 << 10)
    monkeypatch.setattr(text_blocks, "LONGEST_ROW", 1 << 20)
    table, piece = read(tmp_path, GOOD_JSON % 1 + "x" * (3 << 20), Format.JSON)
    assert table.num_rows == 0
    assert "a row is longer than 1 MiB" in piece.bad_files[0]


def test_times_with_and_without_a_zone_in_one_file(tmp_path: Path) -> None:
    texts = ["2020-02-29T12:00:00Z", "2020-02-29 12:00:00", "2020-02-29T14:00:00.0000009+02:00", "2020-02-29T12:00"]
    table, piece = read(tmp_path, "".join(f'{{"ts": "{text}"}}\n' for text in texts), Format.JSON)
    assert table["ts"].to_pylist() == [NOON] * 4
    assert piece.bad_rows == 0


def test_a_value_that_does_not_fit_in_a_parquet_file(tmp_path: Path) -> None:
    values = pa.table(
        {"ts": pa.array([NOON] * 1000), "k": pa.array([float(k) for k in range(1000)]), "s": ["x"] * 1000}
    )
    values = values.set_column(1, "k", pa.array([0.5 if k in (7, 999) else float(k) for k in range(1000)]))
    found = stream(tmp_path, Format.PARQUET)
    pa.parquet.write_table(values, tmp_path / "file")
    pieces = list(
        decode_files(found, [str(tmp_path / "file")], columns=["ts", "k"], quarantine=str(tmp_path / "aside"))
    )
    assert [piece.table.num_rows for piece in pieces] == [998]
    assert (pieces[0].bad_rows, pieces[0].bad_files) == (2, ())
    head, first, second = letters(tmp_path)
    assert (head["bad_rows"], first["at"], second["at"]) == (2, "row 8", "row 1000")
    assert "0.5" in first["text"]


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.ARROW])
def test_a_text_that_is_no_text(tmp_path: Path, format_: Format) -> None:
    texts = pa.array([b"a", b"\xff\xfe", b"c"]).view(pa.string())
    values = pa.table({"ts": pa.array([NOON] * 3), "k": [1, 2, 3], "s": texts})
    path = tmp_path / "file"
    if format_ is Format.PARQUET:
        pa.parquet.write_table(values, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, values.schema) as writer:
            writer.write_table(values)
    found = stream(tmp_path, format_)
    (piece,) = decode_files(found, [str(path)], columns=["ts", "k", "s"], quarantine=str(tmp_path / "aside"))
    assert (piece.table["s"].to_pylist(), piece.bad_rows, piece.bad_files) == (["a", "c"], 1, ())
    assert letters(tmp_path)[1]["at"] == "row 2"


def test_an_arrow_file_with_wrong_offsets_is_a_bad_file(tmp_path: Path) -> None:
    offsets, data = pa.array([0, 1, 1 << 20, 3], pa.int32()).buffers()[1], pa.py_buffer(b"abc")
    texts = pa.StringArray.from_buffers(3, offsets, data)
    values = pa.record_batch({"ts": pa.array([NOON] * 3), "k": pa.array([1, 2, 3]), "s": texts})
    with pa.OSFile(str(tmp_path / "file"), "wb") as file, pa.ipc.new_file(file, values.schema) as writer:
        writer.write_batch(values)
    found = stream(tmp_path, Format.ARROW)
    urls = [str(tmp_path / "file")]
    (piece,) = decode_files(found, urls, columns=["ts", "k", "s"], quarantine=str(tmp_path / "aside"))
    assert (piece.table.num_rows, len(piece.bad_files)) == (0, 1)
    (other,) = decode_files(found, urls, columns=["ts", "k"], quarantine=str(tmp_path / "aside"))
    assert (other.table.num_rows, other.bad_files) == (3, ())


def test_too_many_bad_rows_are_a_bad_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MOST_BAD_ROWS", 3)
    table, piece = read(tmp_path, GOOD_JSON % 1 + '{"k": "x"}\n' * 4, Format.JSON)
    assert (table.num_rows, piece.bad_rows) == (0, 0)
    assert "More than 3 rows cannot be read; line 2: " in piece.bad_files[0]


def test_few_texts_are_kept_of_many_bad_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "ROWS_KEPT", 2)
    monkeypatch.setattr(decode, "ROWS_KEPT", 2)
    _, piece = read(tmp_path, GOOD_JSON % 1 + '{"k": "x"}\n' * 5, Format.JSON)
    assert piece.bad_rows == 5
    head, *rows = letters(tmp_path)
    assert (head["bad_rows"], head["kept"], len(rows)) == (5, 2, 2)


def test_read_again_a_file_takes_its_own_place(tmp_path: Path) -> None:
    for _ in range(2):
        read(tmp_path, GOOD_JSON % 1 + "bad\n", Format.JSON)
    assert len(list((tmp_path / "aside" / "s").iterdir())) == 1


def _csv_line(k: int, text: str) -> str:
    return f'2020-02-29,{k},"{text}"\n'


def _json_line(k: int, text: str) -> str:
    return json.dumps({"ts": "2020-02-29", "k": k, "s": text}) + "\n"


BAD_LINES = {
    Format.CSV: ["2020-02-29,x,y\n", "2020-02-29,1\n", "no,1,y\n", "2020-02-29,1,y,z\n"],
    Format.JSON: ['{"k": "x"}\n', "{\n", "]\n", '{"ts": "no", "k": 1}\n'],
}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from([Format.CSV, Format.JSON]),
    st.lists(st.one_of(st.text("ab \né", max_size=20), st.integers(0, 3), st.none()), max_size=60),
    st.sampled_from([16, 100, 1 << 20]),
)
def test_good_rows_are_read_and_bad_ones_found_in_any_blocks(
    tmp_path: Path, format_: Format, drawn: list[str | int | None], block: int
) -> None:
    line = _csv_line if format_ is Format.CSV else _json_line
    text, number = ("ts,k,s\n", 2) if format_ is Format.CSV else ("", 1)
    good, bad = [], []
    for k, each in enumerate(drawn):
        if isinstance(each, str):
            written = line(k, each)
            good.append((k, each))
        else:
            written = "\n" if each is None else BAD_LINES[format_][each]
            bad += [] if each is None else [f"line {number}"]
        text += written
        number += written.count("\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK", block)
        for old in (tmp_path / "aside").rglob("*.jsonl"):
            old.unlink()
        table, piece = read(tmp_path, text, format_)
    if bad and not good:
        assert (len(piece.bad_files), table.num_rows) == (1, 0)
        return
    assert list(zip(table["k"].to_pylist(), table["s"].to_pylist(), strict=True)) == good
    assert (piece.bad_rows, piece.bad_files) == (len(bad), ())
    if bad:
        assert [letter["at"] for letter in letters(tmp_path)[1:]] == bad
