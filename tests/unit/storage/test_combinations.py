"""Files of matched lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.plan.expression import Column
from weft.plan.key import Index
from weft.plan.probe_tree import Input
from weft.plan.types import BIGINT
from weft.storage.combinations import (
    Combinations,
    Member,
    concat_combinations,
    open_combinations,
    place_id,
    write_combinations,
)
from weft.storage.index_order import order_index
from weft.storage.result_files import PartRef

REFS = [PartRef("0/a.arrow", 0), PartRef("1/b.arrow", 2)]


def some(hashes: bool = True) -> Combinations:
    first = Member(np.array([0, 1, 0], np.int32), np.array([5, 6, 7], np.int32), np.array([10, 30, 20]))
    second = Member(np.array([1, 1, 1], np.int32), np.array([0, 1, 2], np.int32), np.array([-1, 0, 1]))
    sets = np.array([[1, 0], [2, 0], [0, 1 << 63]], np.uint64)
    return Combinations((first, second), sets, np.array([3, 9, 2**63], np.uint64) if hashes else None)


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = write_combinations(tmp_path, "list.arrow", some(), REFS, times=True)
    assert written.bytes == (tmp_path / written.path).stat().st_size
    file = open_combinations(tmp_path / written.path)
    assert (file.refs, file.words, file.members, file.spans) == (tuple(REFS), 2, 2, ((10, 30), (-1, 1)))
    read = file.combinations(slice(1, 3), np.array([70, 80], np.int32))
    assert read.hashes is not None
    assert read.hashes.tolist() == [9, 2**63]
    assert read.members[0].part.tolist() == [80, 70]
    assert read.members[0].row.tolist() == [6, 7]
    assert read.members[1].time.tolist() == [0, 1]
    assert read.sets.tolist() == some().sets[1:].tolist()
    member = file.member(0, np.array([70, 80], np.int32)).take(np.array([2, 0]))
    assert (member.part.tolist(), member.row.tolist(), member.time.tolist()) == ([70, 70], [7, 5], [20, 10])


def test_indexes_go_with_a_list(tmp_path: Path) -> None:
    place = place_id(Input("a", 1), Index((Column("k", BIGINT),), True))
    assert place != place_id(Input("a", 0), Index((Column("k", BIGINT),), True))
    hashes = np.array([9, 3, 5], np.uint64)
    index = order_index(hashes, np.array([0, 0, 0]), np.array([True, False, True]))
    written = write_combinations(tmp_path, "list.arrow", some(hashes=False), REFS, times=True, indexes={place: index})
    file = open_combinations(tmp_path / written.path)
    assert file.has_index(place)
    assert not file.has_index("other")
    assert [each.tolist() for each in file.index(place)] == [[5, 9, 2**64 - 1], [2, 0, -1]]


def test_lists_are_put_together_and_cut() -> None:
    both = concat_combinations([some(), some().take(np.array([2]))])
    assert both.hashes is not None
    assert both.hashes.tolist() == [3, 9, 2**63, 2**63]
    assert both.members[0].row.tolist() == [5, 6, 7, 7]
    assert concat_combinations([some(), some(hashes=False)]).hashes is None
    left = both.with_sets(both.sets & np.array([3, 0], np.uint64))
    assert left.members[0].row.tolist() == [5, 6]
    assert len(left) == 2
