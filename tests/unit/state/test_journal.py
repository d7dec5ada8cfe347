"""Changelogs, manifests, checkpoints and packs: what is written is read, whatever was cut short in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import StateCorrupt
from weft.plan.changelog import Change, QueryId, QueryRecord, Slots
from weft.plan.key import StoreId
from weft.state.bucket import Bucket, Part
from weft.state.directory import Directory, number_name
from weft.state.journal import Journal, Manifest, StreamTotals, record_from_json, record_to_json
from weft.state.segment import PartRef, Piece, Segment

TEXT = st.text(max_size=6)
COUNT = st.integers(0, 2**40)
TIME = st.integers(-(2**63), 2**63 - 1)
HASH = st.integers(0, 2**64 - 1)
IDS = st.builds(QueryId, st.from_regex(r"q[0-9]{1,3}", fullmatch=True))
SLOTS = st.builds(Slots, st.integers(0, 2**200))
PARTS = st.builds(Part, HASH, HASH, COUNT, TIME, TIME, SLOTS)
BUCKETS = st.builds(Bucket, TEXT, st.builds(StoreId, TEXT), TEXT, COUNT, st.lists(PARTS, max_size=2).map(tuple), COUNT)
REFS = st.builds(PartRef, TEXT, COUNT)
PIECES = st.lists(st.builds(Piece, TEXT, REFS, REFS, COUNT), max_size=2).map(tuple)
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


def batches(journal: Journal) -> list[int]:
    return [found.batch for found in journal.manifests()]


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


def test_changes_come_back_in_order_and_only_later_ones(directory: Directory) -> None:
    journal = Journal(directory)
    changes = [Change(batch, (record(f"q{n}", batch),), (QueryId("q0"),)) for n, batch in enumerate([2, 2, 10, 3])]
    for change in changes:
        journal.write_change(change)
    assert list(journal.changes(after=1)) == [changes[0], changes[1], changes[3], changes[2]]
    assert list(journal.changes(after=2)) == [changes[3], changes[2]]
    assert list(journal.changes(after=10)) == []


def test_a_checkpoint_takes_the_place_of_all_before_it(directory: Directory) -> None:
    journal = Journal(directory)
    assert journal.read_checkpoint() == (-1, None)
    for batch in range(6):
        journal.write_change(Change(batch, (), ()))
    journal.write_checkpoint(2, {"at": 2})
    journal.write_checkpoint(4, {"at": 4})
    assert journal.read_checkpoint() == (4, {"at": 4})
    assert [number for number, _ in directory.numbered("checkpoints")] == [4]
    assert [number for number, _ in directory.numbered("changelog")] == [5]


def test_the_latest_of_two_checkpoints_counts(directory: Directory) -> None:
    directory.write_json({"at": 2}, "checkpoints", number_name(2, ".json"))
    directory.write_json({"at": 10}, "checkpoints", number_name(10, ".json"))
    directory.path("checkpoints", number_name(11, ".json.tmp")).write_text("{")
    assert Journal(directory).read_checkpoint() == (10, {"at": 10})


def test_packed_manifests_are_read_like_loose_ones(directory: Directory) -> None:
    journal = Journal(directory)
    for batch in range(7):
        journal.write_manifest(manifest(batch))
        if batch in (2, 4):
            journal.pack()
    assert list(journal.manifests()) == [manifest(batch) for batch in range(7)]
    assert [number for number, _ in directory.numbered("packs")] == [2, 4]
    assert [number for number, _ in directory.numbered("commits")] == [5, 6]


def test_nothing_to_pack_is_no_pack(directory: Directory) -> None:
    Journal(directory).pack()
    assert directory.numbered("packs") == []


@pytest.mark.parametrize("removed", range(5))
def test_a_pack_cut_short_while_it_removes_loose_ones_shows_each_once(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    journal = Journal(directory)
    for batch in range(4):
        journal.write_manifest(manifest(batch))
    left, real = removed, Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        real(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        try:
            journal.pack()
        except KeyboardInterrupt:
            pass
        else:
            assert removed == 4
    assert batches(journal) == [0, 1, 2, 3]
    journal.write_manifest(manifest(4))
    journal.pack()
    assert batches(journal) == [0, 1, 2, 3, 4]
    assert directory.numbered("commits") == []


def test_a_pack_cut_short_while_it_is_written_is_not_there(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(directory)
    for batch in range(3):
        journal.write_manifest(manifest(batch))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            journal.pack()
    assert batches(journal) == [0, 1, 2]
    assert directory.numbered("packs") == []


def test_packs_are_forgotten_when_all_in_them_is(directory: Directory) -> None:
    journal = Journal(directory)
    for batch in range(6):
        journal.write_manifest(manifest(batch))
        if batch % 2:
            journal.pack()
    journal.forget_packs(before=3)
    assert batches(journal) == [2, 3, 4, 5]
    journal.forget_packs(before=6)
    assert batches(journal) == []


def test_a_manifest_that_cannot_be_read_is_corrupt(directory: Directory) -> None:
    directory.path("commits", number_name(0, ".json")).write_text('{"batch": 0')
    with pytest.raises(StateCorrupt, match=r"000000000000\.json"):
        list(Journal(directory).manifests())
