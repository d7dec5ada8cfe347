"""Memory is bounded by pieces, not by files: in rows, and in bytes when they are decoded."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from weft.execution.input import columnar_files as decode_binary
from weft.execution.input import pieces, text_blocks
from weft.execution.input.decode import decode_files
from weft.execution.input.pieces import Piece, aside_from_texts, aside_to_texts, cut_pieces
from weft.plan.stream import FileSource, Format, Stream
from weft.sql import parse_schema

DDL = "ts timestamp, k bigint, s string"


def stream(folder: Path, format_: Format, ddl: str = DDL) -> Stream:
    return Stream("s", parse_schema(ddl), "ts", timedelta(0), None, FileSource(str(folder), format_))


def table(rows: int, first: int = 0) -> pa.Table:
    numbers = np.arange(first, first + rows)
    return pa.table({"ts": pa.array(numbers, pa.timestamp("us", "UTC")), "k": numbers, "s": [str(n) for n in numbers]})


def numbers(found: list[pa.Table]) -> list[list[int]]:
    return [each["k"].to_pylist() for each in found]


def test_pieces_are_cut_by_rows_across_tables() -> None:
    found = cut_pieces([table(3), table(0), table(5, 3), table(1, 8)], 4)
    assert numbers(list(found)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert list(cut_pieces([table(0)], 4)) == []


def test_pieces_are_cut_by_bytes() -> None:
    wide = pa.table({"k": range(10), "s": ["x" * 1000] * 10})
    found = list(cut_pieces([wide, wide.slice(0, 3)], 100, 2500))
    assert all(each.nbytes <= 2500 for each in found)
    assert [k for each in numbers(found) for k in each] == [*range(10), 0, 1, 2]
    assert len(list(cut_pieces([wide], 100, 10))) == 10, "a row is never cut"


def test_texts_in_dictionaries_count_as_often_as_they_occur() -> None:
    coded = pa.table({"k": range(64), "s": pa.array(["x" * 1000] * 64).dictionary_encode()})
    assert coded.nbytes < 4000
    assert len(list(cut_pieces([coded], 100, 8 * 1100))) == 8


def test_tables_of_different_types_are_not_put_together() -> None:
    found = list(cut_pieces([pa.table({"k": [1]}), pa.table({"k": ["a"]})], 10))
    assert numbers(found) == [[1], ["a"]]


def test_what_was_set_aside_travels_as_text() -> None:
    piece = Piece("s", table(1), ("a: torn", "b: torn"), 7)
    assert aside_from_texts([*aside_to_texts(piece), *aside_to_texts(piece)]) == (piece.bad_files * 2, 14)
    assert aside_to_texts(Piece("s", table(1))) == []


def write(path: Path, rows: pa.Table, format_: Format) -> str:
    if format_ is Format.PARQUET:
        pa.parquet.write_table(rows, path, row_group_size=1000)
    elif format_ is Format.ARROW:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows, 1000)
    elif format_ is Format.CSV:
        pa.csv.write_csv(rows, path)
    else:
        path.write_text("".join(f'{{"ts": "{r["ts"]}", "k": {r["k"]}, "s": "{r["s"]}"}}\n' for r in rows.to_pylist()))
    return str(path)


@pytest.mark.parametrize("format_", list(Format))
@pytest.mark.parametrize("checked", [False, True])
def test_large_files_come_in_pieces_and_small_ones_together(
    tmp_path: Path, format_: Format, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK", 1 << 12)
    small = [write(tmp_path / f"small{n}", table(300, 10_000 + 300 * n), format_) for n in range(5)]
    large = write(tmp_path / "large", table(2500), format_)
    found = list(
        decode_files(
            stream(tmp_path, format_), [small[0], large, *small[1:]],
            columns=["ts", "k"], quarantine="", rows=1000, checked=checked,
        )
    )  # fmt: skip
    assert [(each.table.num_rows, each.more) for each in found] == [
        (1000, True), (1000, True), (500, False), (1000, False), (500, False)
    ]  # fmt: skip
    assert sorted(k for each in found for k in each.table["k"].to_pylist()) == [*range(2500), *range(10_000, 11_500)]
    assert not any(each.void for each in found)


def spoil(path: Path) -> None:
    """Overwrite the data of the last row group or batch."""
    data = bytearray(path.read_bytes())
    metadata = pa.parquet.read_metadata(path)
    chunk = metadata.row_group(metadata.num_row_groups - 1).column(1)
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("checked", [False, True])
def test_a_large_file_with_a_torn_end_is_void(tmp_path: Path, checked: bool) -> None:
    good, bad = (Path(write(tmp_path / name, table(2500), Format.PARQUET)) for name in ("good", "bad"))
    spoil(bad)
    found = list(
        decode_files(
            stream(tmp_path, Format.PARQUET), [str(bad), str(good)], columns=["ts", "k"],
            quarantine=str(tmp_path / "aside"), rows=1000, checked=checked,
        )
    )  # fmt: skip
    kept: list[Piece] = []
    waiting: list[Piece] = []
    for piece in found:
        waiting = [] if piece.void else waiting
        waiting.append(piece)
        if not piece.more:
            kept, waiting = kept + waiting, []
    assert [k for piece in kept for k in piece.table["k"].to_pylist()] == [*range(2500)]
    assert any(piece.void for piece in found) is not checked
    assert [len(piece.bad_files) for piece in found if piece.bad_files] == [1]
    assert len(list((tmp_path / "aside" / "s").iterdir())) == 2


def test_a_parquet_file_of_a_constant_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Ten million rows and 100 GB of text in a file of some kilobytes."""
    rows, groups = 1 << 20, 10
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 10_000]))
    constant = pa.table(
        {"ts": pa.array(np.zeros(rows, np.int64), pa.timestamp("us")), "k": np.zeros(rows, np.int64), "s": text}
    )
    path = tmp_path / "constant"
    with pa.parquet.ParquetWriter(path, constant.schema) as writer:
        for _ in range(groups):
            writer.write_table(constant, rows)
    assert path.stat().st_size < 1 << 20
    before = pa.total_allocated_bytes()
    found = stream(tmp_path, Format.PARQUET)
    seen = 0
    for piece in decode_files(found, [str(path)], columns=["ts", "k"], quarantine=""):
        seen += piece.table.num_rows
        assert piece.table.num_rows <= pieces.ROWS_AT_ONCE
        assert pa.total_allocated_bytes() - before < 200 << 20
    assert seen == rows * groups
    for number, piece in enumerate(decode_files(found, [str(path)], columns=["ts", "k", "s"], quarantine="")):
        assert piece.table.nbytes <= pieces.BYTES_AT_ONCE + decode_binary.BYTES_DECODED
        assert pa.total_allocated_bytes() - before < 5 * pieces.BYTES_AT_ONCE
        if number == 2:
            break
