"""New files of a directory: order, limits, what is passed over, and that an unchanged directory is not listed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.execution.input import listing
from weft.execution.input.listing import Listing, group_files

LONG_AGO = 1_500_000_000_000_000_000


def put(root: Path, name: str, *, size: int = 1, at: int = LONG_AGO) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, ns=(at, at))


def names(found: Listing, most: int | None = None) -> list[str]:
    return [each.name for each in found.next_files(most_files=most)]


def never(_: str) -> bool:
    return False


def test_files_come_by_age_then_by_name_whatever_their_age(tmp_path: Path) -> None:
    put(tmp_path, "b", at=LONG_AGO)
    put(tmp_path, "a", at=LONG_AGO)
    put(tmp_path, "old", at=1)
    put(tmp_path, "d=1/part", at=LONG_AGO + 1)
    put(tmp_path, "d=2/part", at=LONG_AGO + 1)
    found = Listing(str(tmp_path))
    assert found.look(never)
    assert names(found) == ["old", "a", "b", "d=1/part", "d=2/part"]
    assert names(found, 2) == ["old", "a"]


def test_hidden_names_and_what_is_no_file_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "_SUCCESS")
    put(tmp_path, ".draft")
    put(tmp_path, "_temporary/part")
    put(tmp_path, ".hidden/part")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)
    put(tmp_path, "part")
    found = Listing(str(tmp_path))
    found.look(never)
    assert names(found) == ["part"]


def test_a_directory_that_has_not_changed_is_not_listed_again(tmp_path: Path) -> None:
    put(tmp_path, "a")
    put(tmp_path, "below/b")
    for folder in (tmp_path, tmp_path / "below"):
        os.utime(folder, ns=(LONG_AGO, LONG_AGO))
    found = Listing(str(tmp_path))
    assert found.look(never)
    assert not found.look(never)
    assert names(found) == ["a", "below/b"], "what waits is remembered"
    put(tmp_path, "below/c")
    assert found.look(never)
    assert names(found) == ["a", "below/b", "below/c"]


def test_a_directory_that_has_just_changed_is_listed_again(tmp_path: Path) -> None:
    found = Listing(str(tmp_path))
    put(tmp_path, "a")
    assert found.look(never)
    assert found.look(never), "another file may have come within the same tick of the clock"


def test_an_empty_file_is_read_once_it_has_content(tmp_path: Path) -> None:
    put(tmp_path, "a", size=0)
    os.utime(tmp_path, ns=(LONG_AGO, LONG_AGO))
    found = Listing(str(tmp_path))
    found.look(never)
    assert names(found) == []
    (tmp_path / "a").write_bytes(b"now")
    os.utime(tmp_path, ns=(LONG_AGO, LONG_AGO))
    found.look(never)
    assert names(found) == ["a"]


def test_what_was_read_does_not_come_again(tmp_path: Path) -> None:
    put(tmp_path, "a")
    put(tmp_path, "b")
    found = Listing(str(tmp_path))
    found.look(lambda name: name == "a")
    assert names(found) == ["b"]
    found.forget(["b"])
    assert names(found) == []
    assert found.present == {"a", "b"}


def test_a_backlog_is_cut_by_bytes_but_one_file_always_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_BYTES", 10)
    for number, size in enumerate((30, 4, 4, 4)):
        put(tmp_path, f"{number}", size=size)
    found = Listing(str(tmp_path))
    found.look(never)
    assert names(found) == ["0"]
    found.forget(["0"])
    assert names(found) == ["1", "2"]


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Listing(str(tmp_path / "nowhere")).look(never)


@pytest.mark.parametrize("tasks", [1, 2, 3, 8])
def test_files_are_spread_evenly_and_each_goes_to_one_task(tasks: int) -> None:
    files = [("s", f"f{n}", size) for n, size in enumerate((100, 1, 50, 49, 0, 0))]
    groups = group_files(files, tasks)
    assert len(groups) == min(tasks, len(files))
    assert sorted(each for group in groups for each in group) == sorted((s, f) for s, f, _ in files)
    if tasks == 2:
        sizes = [sum(size for _, path, size in files if ("s", path) in group) for group in groups]
        assert max(sizes) - min(sizes) <= 2


def test_no_files_need_no_task() -> None:
    assert group_files([], 4) == ()
