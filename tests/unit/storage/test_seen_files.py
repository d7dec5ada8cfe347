"""Files that were read: remembered across restarts, forgotten a week after they are gone, damage noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import StateCorrupt
from weft.storage import seen_files
from weft.storage.directory import Directory
from weft.storage.seen_files import FORGET_AFTER, SeenFiles

DAY = 86_400.0


@pytest.fixture
def directory(tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = Directory.open(tmp_path / "state")
    yield opened
    opened.close()


def reopened(directory: Directory, saved: dict[str, object]) -> SeenFiles:
    again = SeenFiles(directory)
    again.load(saved)
    return again


def test_what_was_read_is_known_after_a_restart(directory: Directory) -> None:
    seen = SeenFiles(directory)
    seen.add("a", ["x", "d=1/y"])
    saved = seen.save()
    seen.add("a", ["z"])
    later = seen.save()
    assert reopened(directory, saved).names == {"a": {"x", "d=1/y"}}
    again = reopened(directory, later)
    assert again.names == {"a": {"x", "d=1/y", "z"}}
    assert again.is_read("a", "z")
    assert not again.is_read("b", "z")


def test_what_a_crash_left_behind_a_checkpoint_does_not_count(directory: Directory) -> None:
    seen = SeenFiles(directory)
    seen.add("a", ["x"])
    saved = seen.save()
    seen.add("a", ["lost"])
    seen.save()  # the checkpoint that would name it was never written
    again = reopened(directory, saved)
    again.add("a", ["y"])
    assert reopened(directory, again.save()).names == {"a": {"x", "y"}}


def test_a_name_is_forgotten_a_week_after_its_file_has_gone(directory: Directory) -> None:
    seen = SeenFiles(directory)
    seen.add("a", ["x", "y"])
    seen.compare("a", {"y"}, 0.0)
    seen.compare("a", {"y"}, FORGET_AFTER - 1)
    assert seen.is_read("a", "x"), "a file system may be away for a while"
    seen.compare("a", {"x", "y"}, FORGET_AFTER - 1)
    seen.compare("a", {"y"}, FORGET_AFTER)
    seen.compare("a", {"y"}, FORGET_AFTER + DAY)
    assert seen.is_read("a", "x"), "it was there again"
    seen.compare("a", {"y"}, 2 * FORGET_AFTER + DAY)
    assert seen.names == {"a": {"y"}}
    assert reopened(directory, seen.save()).names == {"a": {"y"}}


def test_a_name_is_forgotten_though_the_process_restarts_every_day(directory: Directory) -> None:
    seen = SeenFiles(directory)
    seen.add("a", ["x", "y", "z"])
    for day in range(8):
        seen.compare("a", {"z"} if day != 3 else {"y", "z"}, day * DAY)
        seen = reopened(directory, seen.save())
        assert seen.names == {"a": {"x", "y", "z"}}
    seen.compare("a", {"z"}, 7.5 * DAY)
    assert reopened(directory, seen.save()).names == {"a": {"y", "z"}}
    seen.compare("a", {"z"}, 10.5 * DAY)
    assert seen.names == {"a": {"y", "z"}}, "it was there on the fourth day"
    seen = reopened(directory, seen.save())
    seen.compare("a", {"z"}, 11.5 * DAY)
    assert reopened(directory, seen.save()).names == {"a": {"z"}}


def test_since_when_names_are_missing_outlives_a_log_that_is_written_anew(directory: Directory) -> None:
    seen = SeenFiles(directory)
    seen.add("a", [f"{n}" for n in range(1500)])
    for day in range(7):
        seen.compare("a", set() if day % 2 == 0 else {f"{n}" for n in range(1, 1500)}, day * DAY)
        seen = reopened(directory, seen.save())
    seen.remove_old()
    (path,) = (directory.root / "inputs").iterdir()
    assert path.name != "a.0.jsonl"
    seen.compare("a", {f"{n}" for n in range(1, 1500)}, 7.5 * DAY)
    assert not seen.is_read("a", "0")
    assert len(seen.names["a"]) == 1499


def test_what_comes_while_a_checkpoint_is_written_is_in_the_next(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = SeenFiles(directory)
    seen.add("a", ["x"])
    real, once = seen_files.os.fsync, [True]

    def meanwhile(number: int) -> None:
        if once:
            once.clear()
            seen.add("a", ["y"])
            seen.add("b", ["z"])
        real(number)

    monkeypatch.setattr(seen_files.os, "fsync", meanwhile)
    assert reopened(directory, seen.save()).names == {"a": {"x"}}
    assert reopened(directory, seen.save()).names == {"a": {"x", "y"}, "b": {"z"}}


def test_the_log_follows_what_is_there_and_not_history(directory: Directory) -> None:
    seen = SeenFiles(directory)
    sizes = []
    for day in range(100):
        seen.add("a", [f"{day}-{n}" for n in range(100)])
        seen.compare("a", {f"{day}-{n}" for n in range(100)}, day * DAY)
        saved = seen.save()
        seen.remove_old()
        sizes.append(sum(path.stat().st_size for path in (directory.root / "inputs").iterdir()))
    assert max(sizes[50:]) < 3 * max(sizes[:20])
    assert len(seen.names["a"]) < 1000
    assert reopened(directory, saved).names == seen.names


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "remove"])
def test_a_damaged_log_is_noticed(directory: Directory, damage: str) -> None:
    seen = SeenFiles(directory)
    seen.add("a", ["x", "y"])
    saved = seen.save()
    (path,) = (directory.root / "inputs").iterdir()
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[:-3])
        case "flip":
            path.write_bytes(bytes([*data[:-4], data[-4] ^ 1, *data[-3:]]))
        case "empty":
            path.write_bytes(b"")
        case "remove":
            path.unlink()
    with pytest.raises(StateCorrupt, match=path.name):
        reopened(directory, saved)


def test_a_stream_that_was_dropped_leaves_nothing(directory: Directory) -> None:
    seen = SeenFiles(directory)
    seen.add("a", ["x"])
    seen.save()
    seen.drop("a")
    assert seen.save() == {}
    seen.remove_old()
    assert list((directory.root / "inputs").iterdir()) == []
