"""Data files: whatever happens to one, the next process that opens it says so and names it."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from weft.errors import StateCorrupt, StateUnavailable
from weft.storage import data_file as files
from weft.storage.data_file import DataFile, FileMissing, Written, forget_checked, write_file
from weft.storage.packs import Pack

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())], {b"a": b"b"})


@pytest.fixture(autouse=True)
def new_process() -> None:
    forget_checked()


def part(count: int, begin: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(begin, begin + count)), pa.array(["é"] * count)], schema=SCHEMA)


def written(folder: Path, counts: tuple[int, ...] = (3, 0, 5)) -> Written:
    file = write_file(folder, "000000000007/kind-1234.arrow", SCHEMA, (part(count, count) for count in counts))
    forget_checked()
    return file


def read(folder: Path, file: Written) -> list[list[int]]:
    opened = DataFile(folder / file.path)
    return [opened.batch(number).column(0).to_pylist() for number in range(opened.parts)]


@pytest.mark.parametrize("counts", [(), (0,), (3, 0, 5), (1,) * 100])
def test_parts_come_back(tmp_path: Path, counts: tuple[int, ...]) -> None:
    file = written(tmp_path, counts)
    assert file.path.startswith("000000000007/kind-1234-")
    assert file.bytes == (tmp_path / file.path).stat().st_size
    assert read(tmp_path, file) == [list(range(count, 2 * count)) for count in counts]
    assert DataFile(tmp_path / file.path).schema == SCHEMA
    assert [each.name for each in (tmp_path / "000000000007").iterdir()] == [Path(file.path).name]


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    file = written(tmp_path)
    path = tmp_path / file.path
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        forget_checked()
        with pytest.raises(StateCorrupt, match=file.path):
            read(tmp_path, file)


@pytest.mark.parametrize("size", [0, 1, 8, 100, -8, -1])
def test_a_file_cut_short_is_noticed(tmp_path: Path, size: int) -> None:
    file = written(tmp_path)
    path = tmp_path / file.path
    good = path.read_bytes()
    path.write_bytes(good[:size])
    with pytest.raises(StateCorrupt, match=file.path):
        read(tmp_path, file)
    path.write_bytes(good + bytes(8))
    with pytest.raises(StateCorrupt, match=file.path):
        read(tmp_path, file)


def test_another_file_in_its_place_is_noticed(tmp_path: Path) -> None:
    first, second = written(tmp_path), written(tmp_path / "other", (1, 2))
    (tmp_path / first.path).write_bytes((tmp_path / "other" / second.path).read_bytes())
    with pytest.raises(StateCorrupt, match=first.path):
        read(tmp_path, first)
    (tmp_path / "plain.arrow").write_bytes((tmp_path / "other" / second.path).read_bytes())
    with pytest.raises(StateCorrupt, match=r"plain\.arrow"):
        DataFile(tmp_path / "plain.arrow")


def test_a_missing_file_is_both_missing_and_damage(tmp_path: Path) -> None:
    file = written(tmp_path)
    (tmp_path / file.path).unlink()
    with pytest.raises(FileNotFoundError):
        read(tmp_path, file)
    with pytest.raises(StateCorrupt, match="is missing") as caught:
        read(tmp_path, file)
    assert isinstance(caught.value, FileMissing)
    assert Path(caught.value.filename).name in str(caught.value)
    assert "hint" in str(caught.value)
    (tmp_path / file.path).mkdir()
    with pytest.raises(StateCorrupt, match=file.path):
        read(tmp_path, file)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES, errno.ENOMEM, errno.ESTALE])
def test_a_file_that_cannot_be_opened_now_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A copy of the state directory would not help, and the next try may succeed."""
    file = written(tmp_path)

    def failing(path: str) -> pa.MemoryMappedFile:
        raise OSError(number, "Failed to open local file", path)

    with monkeypatch.context() as patch:
        patch.setattr(files.pa, "memory_map", failing)
        with pytest.raises(StateUnavailable, match=file.path) as caught:
            read(tmp_path, file)
        assert errno.errorcode[number] in caught.value.detail
        with pytest.raises(StateUnavailable, match=r"packs/"):
            Pack(tmp_path / "packs" / "000-001-0123456789abcdef.pack")
    assert read(tmp_path, file) == [[3, 4, 5], [], [5, 6, 7, 8, 9]]


def test_arrow_tells_why_a_file_cannot_be_opened(tmp_path: Path) -> None:
    """The reason is Arrow's own error number, not one that a test has made up."""
    file = written(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(tmp_path / file.path, os.O_RDONLY)  # all numbers below are taken
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, before[1]))
        with pytest.raises(StateUnavailable, match="cannot be opened now") as caught:
            read(tmp_path, file)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(lowest)
    assert "EMFILE" in caught.value.detail


def test_a_part_that_is_not_there_is_damage(tmp_path: Path) -> None:
    file = written(tmp_path)
    with pytest.raises(StateCorrupt, match=file.path):
        DataFile(tmp_path / file.path).batch(3)


def test_parts_are_checked_once_in_a_process_and_only_those_that_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, (3, 4))
    seen: list[int] = []
    real = files.digest
    monkeypatch.setattr(files, "digest", lambda data: seen.append(len(np.frombuffer(data, np.uint8))) or real(data))
    DataFile(tmp_path / file.path).batch(1)
    assert len(seen) == 4, "the trailer, Arrow's schema and footer, and a part"
    DataFile(tmp_path / file.path).batch(1)
    assert len(seen) == 4
    DataFile(tmp_path / file.path).batch(0)
    assert len(seen) == 5
    own = write_file(tmp_path, "8/x.arrow", SCHEMA, [part(1), part(2)])
    seen.clear()
    assert read(tmp_path, own) == [[0], [0, 1]]
    assert seen == [], "what this process has written it has checked"


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_KEPT", 3)
    for n in range(5):
        file = write_file(tmp_path, f"{n}/x.arrow", SCHEMA, [part(1)])
        read(tmp_path, file)
    assert len(files._checked) == 3
