"""Changelogs, manifests, checkpoints and packs: what is written is read, whatever was cut short in between."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import StateCorrupt, StateVersion
from weft.plan.changelog import Change, Failure, QueryId, QueryRecord
from weft.plan.key import StoreId
from weft.plan.slots import Slots
from weft.storage.bucket import Bucket, Part
from weft.storage.data_file import DataFile, forget_checked, write_file
from weft.storage.directory import Directory, number_name
from weft.storage.journal import Journal, Manifest, StreamTotals, record_from_json, record_to_json
from weft.storage.result_files import PartRef, Segment, SegmentPiece

TEXT = st.text(max_size=6)
COUNT = st.integers(0, 2**40)
TIME = st.integers(-(2**63), 2**63 - 1)
HASH = st.integers(0, 2**64 - 1)
IDS = st.builds(QueryId, st.from_regex(r"q[0-9]{1,3}", fullmatch=True))
SLOTS = st.builds(Slots, st.integers(0, 2**200))
PARTS = st.builds(Part, HASH, HASH, COUNT, TIME, TIME, SLOTS)
BUCKETS = st.builds(Bucket, TEXT, st.builds(StoreId, TEXT), TEXT, COUNT, st.lists(PARTS, max_size=2).map(tuple), COUNT)
REFS = st.builds(PartRef, TEXT, COUNT)
PIECES = st.lists(st.builds(SegmentPiece, TEXT, REFS, REFS, COUNT), max_size=2).map(tuple)
SEGMENTS = st.builds(Segment, TEXT, PIECES, COUNT)
TOTALS = st.builds(StreamTotals, COUNT, COUNT, COUNT, st.none() | TIME, st.lists(TEXT, max_size=2).map(tuple))
RECORDS = st.builds(
    QueryRecord, IDS, TEXT, TEXT, COUNT, COUNT, st.none() | TIME,
    st.lists(st.integers(0, 5), max_size=3).map(tuple), st.none() | COUNT, TEXT,
)  # fmt: skip


def few(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


def pairs(key: st.SearchStrategy[Any], value: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.dictionaries(key, value, max_size=2).map(lambda found: tuple(found.items()))


MANIFESTS = st.builds(
    Manifest, COUNT, st.floats(0, 1e10), pairs(TEXT, TOTALS), few(BUCKETS), few(TEXT), few(SEGMENTS), few(TEXT),
    few(BUCKETS), pairs(IDS, TEXT), COUNT,
)  # fmt: skip


def manifest(batch: int) -> Manifest:
    return Manifest(batch, float(batch), (("a", StreamTotals(1, 0, 0, batch)),), (), (), (), (), (), (), 0)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    opened = Directory.open(tmp_path)
    yield opened
    opened.close()


def history(directory: Directory) -> list[Change | Manifest]:
    """What a new process reads."""
    journal = Journal(directory)
    last, _ = journal.read_checkpoint()
    return list(journal.history(after=last))


def batches(directory: Directory) -> list[int]:
    return [entry.batch for entry in history(directory) if isinstance(entry, Manifest)]


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@given(MANIFESTS)
@settings(max_examples=20)
def test_a_manifest_comes_back_as_it_was(value: Manifest) -> None:
    assert Manifest.from_json(through_json(value.to_json())) == value


@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: QueryRecord) -> None:
    assert record_from_json(through_json(record_to_json(record))) == record


@given(MANIFESTS)
@settings(max_examples=12)
def test_result_files_are_all_that_a_reader_opens(value: Manifest) -> None:
    files = {bucket.path for bucket in value.selected} | set(value.copied)
    for segment in value.segments:
        files |= {segment.path, *(ref.path for piece in segment.pieces for ref in (piece.left, piece.right))}
    assert value.result_files() == files


def record(name: str, batch: int) -> QueryRecord:
    return QueryRecord(QueryId(name), name, "SELECT 'é\n'", 0, batch, None)


def test_entries_come_back_in_the_order_in_which_they_were_written(directory: Directory) -> None:
    journal = Journal(directory)
    entries: list[Change | Manifest] = [
        Change(0, (record("q1", 0),), (), declared=("a",)),
        Change(0, (record("q2", 0),), (QueryId("q1"),), (Failure(QueryId("q1"), 0, "é"),)),
        manifest(0),
        manifest(1),
        Change(2, (), (QueryId("q2"),)),
        manifest(2),
        Change(3, (record("q3", 3),), ()),
    ]
    for entry in entries:
        journal.write_change(entry) if isinstance(entry, Change) else journal.write_manifest(entry)
    assert history(directory) == entries


def test_a_checkpoint_takes_the_place_of_all_before_it(directory: Directory) -> None:
    journal = Journal(directory)
    assert journal.read_checkpoint() == (-1, None)
    for batch in range(4):
        journal.write_change(Change(batch, (), ()))
        journal.write_manifest(manifest(batch))
        if batch in (1, 3):
            journal.write_checkpoint(batch + 1, {"at": batch}, first=0)
    journal.write_change(Change(4, (), ()))
    last, value = Journal(directory).read_checkpoint()
    assert value is not None
    assert (last, value["at"], value["first_result"]) == (3, 3, 0)
    assert [number for number, _ in directory.numbered("checkpoints")] == [4]
    assert [number for number, _ in directory.numbered("changelog")] == [4]
    assert directory.numbered("commits") == []
    assert history(directory) == [Change(4, (), ())]
    assert [Journal(directory).read_manifest(batch) for batch in range(4)] == [manifest(batch) for batch in range(4)]


def test_what_a_checkpoint_has_seen_is_not_told_again(directory: Directory) -> None:
    journal = Journal(directory)
    journal.write_manifest(manifest(0))
    journal.write_change(Change(1, (record("q1", 1),), ()))
    journal.write_checkpoint(1, {}, first=0)
    journal.write_change(Change(1, (record("q2", 1),), ()))
    journal.write_manifest(manifest(1))
    assert history(directory) == [Change(1, (record("q2", 1),), ()), manifest(1)]
    journal.write_checkpoint(2, {}, first=0)
    journal.write_checkpoint(2, {}, first=0)
    assert history(directory) == []


def test_a_checkpoint_before_the_first_batch_counts(directory: Directory) -> None:
    journal = Journal(directory)
    journal.write_change(Change(0, (), (), declared=("a",)))
    journal.write_checkpoint(0, {"streams": []}, first=0)
    assert history(directory) == []
    journal.write_manifest(manifest(0))
    assert history(directory) == [manifest(0)]


def files(directory: Directory) -> dict[str, bytes]:
    found = (path for path in directory.root.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(directory.root)): path.read_bytes() for path in found}


def write_story(directory: Directory) -> None:
    """Two checkpoints, and something after them."""
    journal = Journal(directory)
    for batch in range(7):
        journal.write_change(Change(batch, (record(f"q{batch}", batch),), ()))
        journal.write_manifest(manifest(batch))
        if batch in (2, 4):
            journal.write_checkpoint(batch + 1, {}, first=0)
    journal.write_change(Change(7, (), ()))


@pytest.mark.parametrize("at", range(40))
def test_a_crash_anywhere_leaves_all_that_was_written(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The process dies before the n-th change of a file's name, or its removal."""
    left = at

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return real(*args, **named)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", dying(os.replace))
        patched.setattr(Path, "unlink", dying(Path.unlink))
        patched.setattr(Journal, "_advance", dying(Journal._advance))
        with suppress(KeyboardInterrupt):
            write_story(directory)
    entries = history(directory)
    again = Journal(directory)
    last, _ = again.read_checkpoint()
    assert [entry.batch for entry in entries] == sorted(entry.batch for entry in entries)
    following = max((entry.batch + 1 for entry in entries if isinstance(entry, Manifest)), default=last + 1)
    assert [again.read_manifest(batch) for batch in range(following)] == [manifest(each) for each in range(following)]
    assert history(directory) == entries, "reading once more changes nothing"


def test_what_was_never_acknowledged_may_be_torn(directory: Directory) -> None:
    journal = Journal(directory)
    write_story(directory)
    whole = history(directory)
    path = directory.path("changelog", number_name(7, ".jsonl"))
    good = path.read_bytes()
    path.write_bytes(good + b'{"digest":"')
    assert history(directory) == whole
    assert path.read_bytes() == good
    torn = directory.path("commits", number_name(7, ".json"))
    torn.write_bytes(b'{"digest":"012')
    assert history(directory) == whole
    assert not torn.exists()
    del journal


@pytest.mark.parametrize("damage", ["remove", "empty", "cut", "flip", "older"])
def test_damage_to_any_file_is_said_and_nothing_is_removed(tmp_path: Path, directory: Directory, damage: str) -> None:
    write_story(directory)
    history(directory)
    whole = files(directory)
    assert len(whole) == 11
    for name, data in whole.items():
        path = directory.root / name
        match damage:
            case "remove":
                path.unlink()
            case "older":
                if not name.startswith("commits"):
                    continue
                path.write_bytes(
                    whole["commits/000000000005.json"] if "06" in name else whole["commits/000000000006.json"]
                )
            case _:
                middle = 100 if name.startswith("packs") else len(data) // 2
                bad = {"empty": b"", "cut": data[:middle], "flip": data[:middle] + b"~" + data[middle + 1 :]}
                path.write_bytes(bad[damage])
        before = files(directory)
        if name in ("format.json", "identity.json"):
            directory.close()
            with pytest.raises((StateCorrupt, StateVersion)):
                Directory.open(directory.root)
        else:
            with pytest.raises(StateCorrupt) as caught:
                [Journal(directory).read_manifest(batch) for batch in range(7) if history(directory) or True]
            assert Path(name).name.split(".")[0] in str(caught.value), name
        assert files(directory) == before
        path.write_bytes(data)


def test_a_head_that_is_behind_is_right(directory: Directory) -> None:
    """It is not flushed: after a power failure it may be of an earlier time."""
    head = directory.path("head")
    old = head.read_bytes()
    write_story(directory)
    whole = history(directory)
    head.write_bytes(old)
    assert history(directory) == whole


# ---- packs


def test_packs_are_forgotten_when_all_in_them_is(directory: Directory) -> None:
    journal = Journal(directory)
    for batch in range(6):
        journal.write_manifest(manifest(batch))
        if batch % 2:
            journal.write_checkpoint(batch + 1, {}, first=0)
    journal.write_checkpoint(6, {}, first=3)
    assert [name[:25] for name in sorted(os.listdir(directory.path("packs")))] == [
        "000000000002-000000000003",
        "000000000004-000000000005",
    ]
    journal.write_checkpoint(6, {}, first=6)
    assert os.listdir(directory.path("packs")) == []
    assert history(directory) == []
    with pytest.raises(StateCorrupt, match=r"commits/000000000002\.json"):
        journal.read_manifest(2)


def test_small_files_are_packed_and_large_ones_are_not(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(directory)
    schema = pa.schema([("x", pa.int64())])
    rows = pa.RecordBatch.from_arrays([pa.array(range(1000))], schema=schema)
    data = directory.path("data")
    small = [write_file(data, f"{number_name(batch)}/s.arrow", schema, [rows[:3]]).path for batch in range(3)]
    large = [write_file(data, f"{number_name(batch)}/l.arrow", schema, [rows]).path for batch in range(3)]
    monkeypatch.setattr("weft.storage.journal.SMALL", 2000)
    original = (data / small[1]).read_bytes()
    for batch in range(3):
        journal.write_manifest(manifest(batch))
    seen: list[int] = []

    def small_files(each: Manifest) -> list[str]:
        seen.append(each.batch)
        return [small[each.batch], large[each.batch], f"{number_name(each.batch)}/gone.arrow"]

    journal.write_checkpoint(3, {}, first=1, small=small_files)
    assert seen == [1, 2]
    assert sorted(str(path.relative_to(data)) for path in data.rglob("*.arrow")) == sorted([small[0], *large])
    for path in (*small, *large):
        assert DataFile(data / path).batch(0).num_rows in (3, 1000)
    forget_checked()
    packed = directory.path("packs", os.listdir(directory.path("packs"))[0])
    content = bytearray(packed.read_bytes())
    content[content.find(original) + len(original) // 2] ^= 1
    packed.write_bytes(content)
    with pytest.raises(StateCorrupt, match="s-"):
        DataFile(data / small[1]).batch(0)


@pytest.mark.parametrize("kept", [None, 300])
def test_the_number_of_packs_is_bounded(directory: Directory, kept: int | None) -> None:
    journal = Journal(directory)
    most = 0
    for batch in range(2000):
        journal._directory.create_json(
            manifest(batch).to_json() | {"entry": {"entries": 0, "digest": ""}}, "commits", number_name(batch, ".json")
        )
        if batch % 4 == 3:
            first = 0 if kept is None else max(0, batch - kept)
            journal.write_checkpoint(batch + 1, {}, first=first)
            most = max(most, len(os.listdir(directory.path("packs"))))
    assert most <= 40
    first = 0 if kept is None else 2000 - kept
    assert [journal.read_manifest(batch).batch for batch in range(first, 2000, 97)] == list(range(first, 2000, 97))


def test_a_manifest_that_cannot_be_read_is_corrupt(directory: Directory) -> None:
    journal = Journal(directory)
    for batch in range(2):
        journal.write_manifest(manifest(batch))
    directory.path("commits", number_name(0, ".json")).write_text('{"batch": 0')
    with pytest.raises(StateCorrupt, match=r"000000000000\.json"):
        history(directory)
