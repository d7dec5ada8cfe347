"""Buckets and matched lists: written once, mapped back exactly, part by part."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import DiskFull
from weft.plan.key import StoreId
from weft.plan.slots import NO_SLOTS, Slots
from weft.storage.bucket import (
    LAST_HASH,
    SETS,
    TIME,
    Bucket,
    Part,
    bucket_schema,
    open_part,
    open_parts,
    sets_from_arrow,
    sets_to_arrow,
)
from weft.storage.data_file import write_file
from weft.storage.result_files import PartRef, Segment, SegmentPiece, read_pairs, write_pairs

WORDS = st.integers(1, 3)


def batch(times: list[int], sets: np.ndarray, texts: list[str | None]) -> pa.RecordBatch:
    arrays = [pa.array(times, pa.int64()), sets_to_arrow(sets), pa.array(texts, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, names=[TIME, SETS, "s"])


def random_sets(rows: int, words: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, (rows, words), np.uint64)


@given(words=WORDS, counts=st.lists(st.integers(0, 5), min_size=1, max_size=4), epoch=st.integers(0, 2**40))
@settings(max_examples=15)
def test_parts_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, words: int, counts: list[int], epoch: int
) -> None:
    folder = tmp_path_factory.mktemp("bucket")
    sets = [random_sets(count, words, seed) for seed, count in enumerate(counts)]
    texts = [["é", None, "", "a\x00b", "x"][:count] for count in counts]
    parts = [batch(list(range(len(each))), each, text) for each, text in zip(sets, texts, strict=True)]
    file = write_file(folder, "below/x.arrow", bucket_schema(parts[0].schema, epoch=epoch, words=words), parts)
    path = folder / file.path
    assert file.bytes == path.stat().st_size
    views = open_parts(path, range(len(counts)))
    for view, each, text in zip(views, sets, texts, strict=True):
        assert view.epoch == epoch
        assert view.times.tolist() == list(range(len(each)))
        np.testing.assert_array_equal(view.sets, each)
        assert view.rows.column("s").to_pylist() == text
    assert open_part(path, len(counts) - 1).times.tolist() == views[-1].times.tolist()
    assert open_parts(path, []) == []


def test_a_view_is_mapped_and_read_only(tmp_path: Path) -> None:
    part = batch([1, 2], random_sets(2, 2), ["a", "b"])
    file = write_file(tmp_path, "x.arrow", bucket_schema(part.schema, epoch=0, words=2), [part])
    view = open_part(tmp_path / file.path, 0)
    assert not view.times.flags.writeable
    assert not view.sets.flags.writeable
    assert not view.column(TIME).flags.owndata


@given(words=WORDS, rows=st.integers(0, 9), data=st.data())
def test_query_sets_survive_slices(words: int, rows: int, data: st.DataObject) -> None:
    sets = random_sets(rows, words)
    start = data.draw(st.integers(0, rows))
    count = data.draw(st.integers(0, rows - start))
    column = sets_to_arrow(sets)
    np.testing.assert_array_equal(sets_from_arrow(column, words), sets)
    np.testing.assert_array_equal(sets_from_arrow(column.slice(start, count), words), sets[start : start + count])
    strided = random_sets(2 * rows, words)[::2]
    np.testing.assert_array_equal(sets_from_arrow(sets_to_arrow(strided), words), strided)


def test_a_full_disk_is_said_to_be_one() -> None:
    part = batch([1] * 10_000, random_sets(10_000, 4), ["x"] * 10_000)
    with pytest.raises(DiskFull, match="while writing full"):
        write_file("/dev", "full", bucket_schema(part.schema, epoch=0, words=4), [part])
    with pytest.raises(DiskFull, match="while writing full"):
        write_pairs("/dev", "full", [(np.arange(10_000, dtype=np.int32), np.arange(10_000, dtype=np.int32))])


# ---- what manifests say of them

EMPTY = Part(0, 99, 0, 0, 0, NO_SLOTS)


def bucket(*parts: Part) -> Bucket:
    return Bucket("0/x.arrow", StoreId("s"), "a", 3, parts, 17)


def test_a_bucket_sums_up_its_parts() -> None:
    found = bucket(Part(0, 9, 2, 50, 60, Slots(1)), Part(10, 19, 3, 40, 55, Slots(4)))
    assert (found.rows, found.slots, found.min_time, found.max_time) == (5, 5, 40, 60)


def test_empty_parts_have_no_times() -> None:
    """Their zeros are no event times: a bucket would seem to reach from 1970 to today, and never be merged."""
    late, early = Part(100, LAST_HASH, 1, 10**15, 10**15 + 5, Slots(1)), Part(100, LAST_HASH, 1, -9, -5, Slots(1))
    assert (bucket(EMPTY, late).min_time, bucket(EMPTY, late).max_time) == (10**15, 10**15 + 5)
    assert (bucket(EMPTY, early).min_time, bucket(EMPTY, early).max_time) == (-9, -5)


def test_a_bucket_comes_back_through_json() -> None:
    found = bucket(EMPTY, Part(100, LAST_HASH, 1, -(2**63), 2**63 - 1, Slots(1 << 999)))
    assert Bucket.from_json(json.loads(json.dumps(found.to_json()))) == found


# ---- matched lists

LISTS = st.lists(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=5), max_size=4)


@given(LISTS)
@settings(max_examples=15)
def test_pairs_come_back_piece_by_piece(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[tuple[int, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    arrays = [np.array(each, np.int32).reshape(-1, 2) for each in lists]
    file = write_pairs(folder, "below/x.pairs.arrow", [(each[:, 0], each[:, 1]) for each in arrays])
    path = folder / file.path
    assert file.bytes == path.stat().st_size
    numbers = list(range(len(lists)))[::-1]
    found = [list(zip(left.tolist(), right.tolist(), strict=True)) for left, right in read_pairs(path, numbers)]
    assert found == lists[::-1]


def test_a_segment_says_which_buckets_it_needs() -> None:
    segment = Segment(
        "p",
        (
            SegmentPiece("j", PartRef("a", 0), PartRef("b", 1), 2),
            SegmentPiece("j", PartRef("a", 1), PartRef("c", 0), 1),
        ),
        9,
    )
    assert segment.references() == {"a", "b", "c"}
    assert Segment.from_json(json.loads(json.dumps(segment.to_json()))) == segment
