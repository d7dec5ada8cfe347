"""The state directory: one owner, one version, atomic files, torn lines, no path that leaves it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import DiskFull, InvalidSetting, StateCorrupt, StateLocked, StateUnavailable, StateVersion
from weft.storage import head
from weft.storage.directory import FORMAT, Directory, disk_errors, number_name
from weft.storage.seen_files import SeenFiles

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory.open(tmp_path / "state")


def test_a_second_owner_is_refused_and_told_who_has_it(directory: Directory) -> None:
    with pytest.raises(StateLocked, match="in use by another engine") as caught:
        Directory.open(directory.root)
    assert str(os.getpid()) in caught.value.detail
    directory.close()
    directory.close()
    Directory.open(directory.root).close()


def test_a_link_to_the_directory_is_the_same_directory(directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory.root)
    with pytest.raises(StateLocked):
        Directory.open(tmp_path / "link")


def test_another_version_is_refused_and_the_lock_given_back(directory: Directory) -> None:
    directory.close()
    (directory.root / "format.json").write_text(json.dumps({"format": FORMAT + 1}))
    for _ in range(2):
        with pytest.raises(StateVersion, match=f"has format {FORMAT + 1}, this weft reads format {FORMAT}"):
            Directory.open(directory.root)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "{}", '"format"', "\xff"])
def test_a_version_that_cannot_be_read_is_corrupt(directory: Directory, text: str) -> None:
    directory.close()
    (directory.root / "format.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StateCorrupt, match=r"format\.json"):
        Directory.open(directory.root)


def test_somebody_elses_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StateVersion, match="not a weft state directory"):
        Directory.open(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "thesis.tex"]


@pytest.mark.parametrize("path", ["hdfs://host/a", "s3://bucket/a", "file:///tmp/a", "s3a:/b", "file:/x"])
@pytest.mark.parametrize("kind", [str, Path])
def test_only_local_paths(
    path: str, kind: Callable[[str], str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was: a `Path` has one slash where the address had two, and was a folder below the current one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSetting, match="not a local path"):
        Directory.open(kind(path))
    assert not list(tmp_path.iterdir())


def test_only_its_owner_can_look_into_it(tmp_path: Path) -> None:
    Directory.open(tmp_path / "new").close()
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidSetting, match="is a file, or below one"):
            Directory.open(path)


@pytest.mark.parametrize("parts", [("..",), ("data", "..", "x"), ("/etc",), ("data", "/etc/passwd"), ("../state2",)])
def test_paths_that_leave_are_refused(directory: Directory, parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSetting, match="leaves the state directory"):
        directory.path(*parts)


def test_paths_below_are_given(directory: Directory) -> None:
    assert directory.path("data", "1", "x.arrow") == directory.root / "data" / "1" / "x.arrow"
    assert directory.path() == directory.root


# ---- whole files


def test_a_file_that_is_not_there_has_no_value(directory: Directory) -> None:
    assert directory.read_json("streams", "none.json") is None
    assert directory.read_lines("changelog", "none.jsonl") == ([], 0)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"{} {}", b"{}", b'{"digest":"0123456789abcdef","value":1}'])
def test_a_file_that_cannot_be_read_is_corrupt(directory: Directory, data: bytes) -> None:
    directory.path("streams", "x.json").write_bytes(data)
    with pytest.raises(StateCorrupt, match=r'"streams/x\.json" cannot be read'):
        directory.read_json("streams", "x.json")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.write_json({"old": 1}, "streams", "x.json")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DiskFull, match=r"while writing x\.json"):
        directory.write_json({"new": 2}, "streams", "x.json")
    assert directory.read_json("streams", "x.json") == {"old": 1}
    assert [path.name for path in directory.path("streams").iterdir()] == ["x.json"]


def test_only_a_full_disk_is_a_full_disk() -> None:
    with pytest.raises(PermissionError), disk_errors("x"):
        raise PermissionError(errno.EACCES, "no")
    for number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(DiskFull), disk_errors("x"):
            raise OSError(number, "full")


@given(value=JSON, data=st.data())
@settings(max_examples=30)
def test_no_byte_of_a_file_can_change(
    tmp_path_factory: pytest.TempPathFactory, value: Any, data: st.DataObject
) -> None:
    directory = Directory.open(tmp_path_factory.mktemp("sealed"))
    digest = directory.write_json(value, "streams", "x.json")
    assert directory.read_sealed("streams", "x.json") == (value, digest)
    path = directory.path("streams", "x.json")
    good = path.read_bytes()
    at, bit = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 7))
    path.write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
    with pytest.raises(StateCorrupt, match=r"streams/x\.json"):
        directory.read_json("streams", "x.json")
    path.write_bytes(good)
    path.rename(directory.path("streams", "y.json"))
    with pytest.raises(StateCorrupt, match=r"streams/y\.json"):
        directory.read_json("streams", "y.json")
    directory.close()


def test_a_new_file_that_cannot_be_written_is_not_there(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(DiskFull, match=r"while writing 1\.json"):
            directory.create_json({}, "commits", "1.json")
    assert directory.read_json("commits", "1.json") is None
    directory.create_json({"a": 1}, "commits", "1.json")
    assert directory.read_json("commits", "1.json") == {"a": 1}


def test_a_crash_while_a_directory_is_made_does_not_spoil_it(tmp_path: Path) -> None:
    (tmp_path / "head").write_bytes(b"")
    (tmp_path / "format.json.tmp").write_bytes(b"{")
    Directory.open(tmp_path).close()
    Directory.open(tmp_path).close()


# ---- lines


@given(values=st.lists(JSON, max_size=4), torn=JSON, data=st.data())
@settings(max_examples=15)
def test_a_line_cut_short_anywhere_does_not_count(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], torn: Any, data: st.DataObject
) -> None:
    directory = Directory.open(tmp_path_factory.mktemp("lines"))
    for value in values:
        directory.append_json(value, "changelog", "1.jsonl")
    path = directory.path("changelog", "1.jsonl")
    line = json.dumps(torn).encode()
    with open(path, "ab") as file:
        file.write(line[: data.draw(st.integers(0, len(line)))])
    lines, size = directory.read_lines("changelog", "1.jsonl")
    assert [value for value, _ in lines] == values
    os.truncate(path, size)
    directory.append_json("next", "changelog", "1.jsonl")
    assert [value for value, _ in directory.read_lines("changelog", "1.jsonl")[0]] == [*values, "next"]
    directory.close()


def test_an_append_that_fails_leaves_the_lines_before(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.append_json(1, "changelog", "1.jsonl")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(DiskFull):
            directory.append_json(2, "changelog", "1.jsonl")
    directory.append_json(3, "changelog", "1.jsonl")
    assert [value for value, _ in directory.read_lines("changelog", "1.jsonl")[0]] == [1, 3]


def test_a_whole_line_that_cannot_be_read_is_corrupt(directory: Directory) -> None:
    directory.path("changelog", "1.jsonl").write_bytes(b'{"a":1}\n{"b":\n{"c":1}\n')
    with pytest.raises(StateCorrupt, match=r"1\.jsonl"):
        directory.read_lines("changelog", "1.jsonl")


# ---- numbers


@given(st.lists(st.integers(0, 10**12 - 1), unique=True, max_size=8))
def test_names_of_numbers_sort_as_the_numbers(numbers: list[int]) -> None:
    assert sorted(numbers) == [int(name) for name in sorted(map(number_name, numbers))]


def test_leftovers_are_not_numbered(directory: Directory) -> None:
    for name in ("2.json", "10.json", "000000000001.jsonl", "3.json.tmp", "x.json", ".4.json", "lock"):
        directory.path("commits", name).write_text("")
    assert [number for number, _ in directory.numbered("commits")] == [1, 2, 10]


def test_a_folder_that_is_gone_can_be_removed(directory: Directory) -> None:
    directory.path("data", "7").mkdir()
    directory.path("data", "7", "x").write_text("")
    for _ in range(2):
        directory.remove_tree("data", "7")
    assert not directory.path("data", "7").exists()


def test_a_directory_that_was_there_is_closed_to_others(tmp_path: Path) -> None:
    """Before, only a directory that weft made itself was."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    Directory.open(folder).close()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o750)
    Directory.open(folder).close()
    assert folder.stat().st_mode & 0o777 == 0o750, "what its owner says later counts"


def test_a_directory_of_somebody_else_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(Path, "chmod", refused)
    Directory.open(tmp_path / "state").close()
    assert "belongs to somebody else" in caplog.text


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_a_file_that_cannot_be_opened_now_is_not_said_to_be_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As it was: the head was said to be damaged, and lines and logs of inputs raised a bare OSError."""
    directory = Directory.open(tmp_path)
    directory.append_json({"a": 1}, "x.jsonl")
    files = SeenFiles(directory)
    files.add("a", ["f"])
    saved = files.save()

    def refuse(*_: object, **__: object) -> bytes:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(StateUnavailable, match="head"):
            head._read(tmp_path / head.HEAD_FILE)
        with pytest.raises(StateUnavailable, match=r"x\.jsonl"):
            directory.read_lines("x.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        with pytest.raises(StateUnavailable, match="inputs/"):
            SeenFiles(directory).load(saved)
    directory.close()
