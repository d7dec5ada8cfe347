"""A file that cannot be read now fails the batch; only one that is itself corrupt is set aside."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from weft.errors import BadFile, SourceUnavailable
from weft.execution.input import decode, quarantine
from weft.execution.input.decode import decode_files
from weft.execution.input.pieces import Piece
from weft.execution.input.quarantine import Quarantine
from weft.plan.stream import FileSource, Format, Stream
from weft.spark.errors import to_user_error
from weft.spark.schemas import infer_schema
from weft.sql import parse_schema

GOOD = pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "k": [1]})


def stream(folder: Path, format_: Format = Format.PARQUET) -> Stream:
    return Stream(
        "clicks", parse_schema("ts timestamp, k bigint"), "ts", timedelta(0), None, FileSource(str(folder), format_)
    )


def read(folder: Path, *paths: Path, format_: Format = Format.PARQUET) -> list[Piece]:
    urls = [str(path) for path in paths]
    return list(decode_files(stream(folder, format_), urls, columns=["ts", "k"], quarantine=str(folder / "aside")))


def put(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    pa.parquet.write_table(GOOD, path)
    return path


@pytest.mark.parametrize("format_", list(Format))
def test_a_missing_file_fails_the_batch(tmp_path: Path, format_: Format) -> None:
    with pytest.raises(SourceUnavailable) as caught:
        read(tmp_path, tmp_path / "gone", format_=format_)
    assert caught.value.message == f'file "{tmp_path}/gone" of stream "clicks" cannot be read now'
    assert caught.value.detail == "No such file or directory."
    assert not (tmp_path / "aside").exists()


@pytest.mark.parametrize("format_", list(Format))
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"), OSError(errno.EMFILE, "Too many open files"),
        PermissionError(errno.EACCES, "Permission denied"), pa.ArrowMemoryError("malloc of 64 failed"), MemoryError(),
        pa.ArrowCancelled("Operation cancelled"),
    ],
)  # fmt: skip
def test_faults_of_the_machine_are_not_the_files(
    tmp_path: Path, format_: Format, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Iterator[pa.Table]:
        raise error
        yield

    names = {Format.PARQUET: "parquet", Format.ARROW: "arrow", Format.JSON: "json", Format.CSV: "csv"}
    monkeypatch.setattr(decode, f"{names[format_]}_tables", fail)
    with pytest.raises(SourceUnavailable, match='of stream "clicks"'):
        read(tmp_path, put(tmp_path / "file"), format_=format_)
    assert not (tmp_path / "aside").exists()


def test_memory_that_is_missing_while_a_row_is_looked_for_is_no_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> pa.Table:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setattr("weft.execution.input.columnar_files.conform", fail)
    with pytest.raises(SourceUnavailable, match='of stream "clicks"'):
        read(tmp_path, put(tmp_path / "file"))


def test_a_directory_in_place_of_a_file_fails_the_batch(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for format_ in (Format.JSON, Format.CSV):
        with pytest.raises(SourceUnavailable, match="cannot be read now"):
            read(tmp_path, tmp_path / "folder", format_=format_)


def test_the_error_comes_out_of_a_spark_job(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable) as caught:
        read(tmp_path, tmp_path / "gone")
    text = f"Job aborted due to stage failure.\n  weft.errors.SourceUnavailable: {caught.value}\n\tat org.apache"
    found = to_user_error(RuntimeError(text), 7)
    assert isinstance(found, SourceUnavailable)
    assert found.to_dict() == caught.value.to_dict()


def test_a_schema_is_inferred_from_the_files_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "b")
    os.symlink(tmp_path / "nowhere", tmp_path / "a")
    (tmp_path / "c").write_bytes(b"PAR1")
    assert infer_schema("s", FileSource(str(tmp_path), Format.PARQUET), "ts").names() == ("ts", "k")


# ---- quarantine


def test_files_of_one_name_do_not_take_each_others_place(tmp_path: Path) -> None:
    paths = [tmp_path / f"d={day}" / "part-0" for day in (1, 2)]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(str(path).encode())
    (piece,) = read(tmp_path, *paths)
    assert len(piece.bad_files) == 2
    copies = [path for path in (tmp_path / "aside" / "clicks").iterdir() if path.suffix != ".reason"]
    assert {path.read_text() for path in copies} == {str(path) for path in paths}


def test_the_batch_goes_on_if_nothing_can_be_written_to_quarantine(tmp_path: Path) -> None:
    (tmp_path / "aside").write_text("a file, not a folder")
    (tmp_path / "bad").write_bytes(b"PAR1")
    (piece,) = read(tmp_path, tmp_path / "bad", put(tmp_path / "good"))
    assert (piece.table.num_rows, len(piece.bad_files)) == (1, 1)


def test_a_file_too_large_for_a_copy_still_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "LARGEST_COPY", 3)
    (tmp_path / "bad").write_bytes(b"PAR1")
    read(tmp_path, tmp_path / "bad")
    (reason,) = (tmp_path / "aside" / "clicks").iterdir()
    assert "no copy of it here: it has 4 bytes" in reason.read_text()


def test_a_file_that_vanishes_before_its_copy_is_not_known_to_be_bad(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="gone"):
        Quarantine(tmp_path, "s").put_file(str(tmp_path / "gone"), BadFile("bad"))


def test_the_oldest_files_leave_a_full_quarantine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "MOST_BYTES", 1000)
    kept = Quarantine(tmp_path, "s")
    for number in range(10):
        path = tmp_path / f"file{number}"
        path.write_bytes(b"x" * 300)
        kept.put_file(str(path), BadFile("bad"))
        for each in (tmp_path / "s").glob(f"*file{number}*"):
            os.utime(each, (number, number))
        kept.trim()
    left = sorted(path.name.split("-", 1)[1] for path in (tmp_path / "s").iterdir())
    assert left == ["file8", "file8.reason", "file9", "file9.reason"]
    monkeypatch.setattr(quarantine, "MOST_FILES", 2)
    kept.trim()
    assert sorted(path.name.split("-", 1)[1] for path in (tmp_path / "s").iterdir()) == ["file9", "file9.reason"]


def test_long_and_odd_names(tmp_path: Path) -> None:
    for name in ("é" * 120, "x" * 255, "a b\n#?"):
        path = tmp_path / name
        path.write_bytes(b"PAR1")
        (piece,) = read(tmp_path, path)
        assert len(piece.bad_files) == 1
    assert len(list((tmp_path / "aside" / "clicks").iterdir())) == 6
