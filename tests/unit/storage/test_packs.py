"""Packs: what was put in is found, also while packs are put together; damage is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InternalError, StateCorrupt
from weft.storage import packs
from weft.storage.packs import FAN_IN, MANY, Pack, PackName, choose_pack_merges, find_packed, merge_packs, write_pack


def found(folder: Path, name: str) -> bytes | None:
    located = find_packed(folder, name)
    return None if located is None else bytes(located[0])


@given(st.dictionaries(st.text(min_size=1, max_size=9).filter(lambda name: name[0] != "#"), st.binary(max_size=200)))
@settings(max_examples=20)
def test_everything_is_found_by_its_name(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("packs")
    name = write_pack(folder, 3, 7, files.items())
    assert (name.first, name.last, name.bytes) == (3, 7, (folder / name.name).stat().st_size)
    pack = Pack(folder / name.name)
    for each, data in files.items():
        buffer = pack.find(each)
        assert buffer is not None
        assert bytes(buffer) == data
        assert buffer.address % 8 == 0, "kernels read words"
    assert pack.find("another") is None


def test_files_are_found_while_packs_come_and_go(tmp_path: Path) -> None:
    assert found(tmp_path / "none", "x") is None
    first = write_pack(tmp_path, 0, 1, [("x", b"1"), ("y", b"2")])
    assert found(tmp_path, "x") == b"1"
    second = write_pack(tmp_path, 2, 3, [("z", b"3")])
    assert found(tmp_path, "z") == b"3"
    both = merge_packs(tmp_path, [first, second])
    assert (both.first, both.last) == (0, 3)
    for each in (first, second):
        (tmp_path / each.name).unlink()
    assert [found(tmp_path, name) for name in "xyzw"] == [b"1", b"2", b"3", None]
    (tmp_path / both.name).unlink()
    assert found(tmp_path, "x") is None
    assert packs._known[tmp_path][1] == {}, "what is gone is let go"


@pytest.mark.parametrize("damage", ["empty", "cut", "table", "name", "magic"])
def test_a_damaged_pack_is_said(tmp_path: Path, damage: str) -> None:
    path = tmp_path / write_pack(tmp_path, 0, 1, [("x", b"1" * 100), ("y", b"2")]).name
    data = bytearray(path.read_bytes())
    match damage:
        case "empty":
            data = bytearray()
        case "cut":
            data = data[:-8]
        case "table":
            data[-30] ^= 1
        case "magic":
            data[-1] ^= 1
        case _:
            path = path.rename(path.with_name(path.name.replace("-", "-0", 1)[:-6] + "0.pack"))
    path.write_bytes(data)
    with pytest.raises(StateCorrupt, match=path.name):
        find_packed(tmp_path, "x")


def test_a_pack_that_cannot_be_finished_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            write_pack(tmp_path, 0, 1, [("x", b"1")])
    assert found(tmp_path, "x") is None


# ---- which are put together


def named(first: int, last: int, size: int) -> PackName:
    return PackName(f"{first:012d}-{last:012d}-{0:016x}.pack", size)


def row_of(sizes: list[int]) -> list[PackName]:
    return [named(10 * n, 10 * n + 9, size) for n, size in enumerate(sizes)]


def test_neighbours_of_a_size_are_put_together() -> None:
    some = row_of([10**6, *[5000] * FAN_IN, 10])
    assert choose_pack_merges(some, 10**6) == [some[1 : 1 + FAN_IN]]
    assert choose_pack_merges(some[:FAN_IN], 10**6) == []


def test_a_pack_is_not_of_more_than_a_quarter_of_what_is_kept() -> None:
    some = row_of([5000] * FAN_IN)
    assert choose_pack_merges(some, 40 * FAN_IN)
    assert choose_pack_merges(some, 40 * FAN_IN - 4) == []


def test_large_packs_are_left() -> None:
    assert choose_pack_merges(row_of([packs.MOST_BYTES // FAN_IN + 1] * FAN_IN), 10**6) == []


def test_many_packs_of_any_size_are_put_together() -> None:
    sizes = [10 ** (2 + n % 4) for n in range(MANY + 1)]
    (some,) = choose_pack_merges(row_of(sizes), 10**6)
    assert len(some) == FAN_IN
    assert choose_pack_merges(row_of(sizes[:-1]), 10**6) == []


def test_files_with_the_same_hash_are_not_merged_into_one(tmp_path: Path) -> None:
    """What a checkpoint that failed has left is packed twice, and is the same."""
    packs = [write_pack(tmp_path, at, at, [(f"{at}", b"x"), ("both", b"y")]) for at in range(2)]
    merged = Pack(tmp_path / merge_packs(tmp_path, packs).name)
    assert [bytes(merged.find(name) or b"") for name in ("0", "1", "both")] == [b"x", b"x", b"y"]
    others = [write_pack(tmp_path, at, at, [(f"{at}", b"x"), ("both", b"%d" % at)]) for at in range(2, 4)]
    with pytest.raises(InternalError, match="two files have the same name, or the same hash of it"):
        merge_packs(tmp_path, others)
