"""Combinations of rows, stored as one row reference per member and without the rows' values.

The same file format serves as the exchange between two probe stages, as a stored join, and as a part of the result
log. The tag stage writes each row once; result rows are built only when they are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.plan.key import Index, content_id
from weft.plan.probe_tree import Input
from weft.storage.bucket import HASH, SETS, sets_from_arrow, sets_to_arrow
from weft.storage.data_file import DataFile, Written, write_file
from weft.storage.result_files import PartRef

_REFS, _WORDS, _SPANS = b"weft.refs", b"weft.words", b"weft.spans"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One member of each combination in a list: number of the part its row is in, row number, and event time."""

    part: Array
    row: Array
    time: Array

    def take(self, rows: Array) -> Member:
        """Return this member of the combinations at positions `rows`."""
        return Member(self.part[rows], self.row[rows], self.time[rows])


@dataclass(frozen=True, slots=True, eq=False)
class PartMember:
    """All rows of the part with this number, as a member whose part and row columns are not materialized."""

    number: int
    time: Array

    def take(self, rows: Array) -> Member:
        """Return this member of the combinations at positions `rows`."""
        return Member(np.full(len(rows), self.number, np.int32), rows.astype(np.int32, copy=False), self.time[rows])


@dataclass(frozen=True, slots=True, eq=False)
class FileMember:
    """A member of the combinations of a file. `numbers` maps the file's part numbers to those of the caller."""

    part: Array
    row: Array
    time: Array
    numbers: Array

    def take(self, rows: Array) -> Member:
        """Return this member of the combinations at positions `rows`."""
        return Member(self.numbers[self.part[rows]], self.row[rows], self.time[rows])


StoredMember = PartMember | FileMember


@dataclass(frozen=True, slots=True, eq=False)
class Combinations:
    """A list of combinations with their query-sets. Members are in the fixed order of inputs.

    `hashes` are the hashes of the key that partitions the combinations, if a key does.
    """

    members: tuple[Member, ...]
    sets: Array
    hashes: Array | None = None

    def __len__(self) -> int:
        return len(self.sets)

    def take(self, rows: Array) -> Combinations:
        """Return the combinations at these positions, in this order."""
        hashes = None if self.hashes is None else self.hashes[rows]
        return Combinations(
            tuple(member.take(rows) for member in self.members), np.take(self.sets, rows, axis=0), hashes
        )

    def with_sets(self, sets: Array) -> Combinations:
        """Return the combinations with new query-sets, without those whose query-set is empty."""
        kept = sets.any(axis=1)
        combinations = Combinations(self.members, sets, self.hashes)
        return combinations if bool(kept.all()) else combinations.take(np.flatnonzero(kept))


def concat_combinations(parts: Sequence[Combinations]) -> Combinations:
    """Concatenate lists of combinations that have the same members."""
    if len(parts) == 1:
        return parts[0]
    members = tuple(
        Member(*(np.concatenate([getattr(part.members[at], name) for part in parts]) for name in Member.__slots__))
        for at in range(len(parts[0].members))
    )
    hashes = [part.hashes for part in parts if part.hashes is not None]
    all_hashes = np.concatenate(hashes) if len(hashes) == len(parts) else None
    return Combinations(members, np.concatenate([part.sets for part in parts]), all_hashes)


Indexes = Mapping[str, tuple[Array, Array]]
"""By `place_id`: the sorted hashes, and the position of the combination that has each hash."""


def place_id(owner: Input, index: Index) -> str:
    """Return the name of the index by a key of the member `owner`."""
    return content_id(owner.text, index.id)


def write_combinations(
    folder: str | Path,
    name: str,
    found: Combinations,
    refs: Sequence[PartRef],
    *,
    times: bool,
    indexes: Indexes | None = None,
) -> Written:
    """Write a non-empty list of combinations whose part numbers are positions in `refs`.

    `times` says whether to write the members' event times, which are otherwise found in the rows.
    """
    columns: dict[str, pa.Array] = {} if found.hashes is None else {HASH: pa.array(found.hashes)}
    part_type = np.int16 if len(refs) < 1 << 15 else np.int32
    for at, member in enumerate(found.members):
        columns |= {f"p{at}": pa.array(member.part.astype(part_type)), f"r{at}": pa.array(member.row, pa.int32())}
        if times:
            columns[f"t{at}"] = pa.array(member.time, pa.int64())
    for place, (hashes, rows) in (indexes or {}).items():
        columns |= {f"h:{place}": pa.array(hashes), f"o:{place}": pa.array(rows)}
    columns[SETS] = sets_to_arrow(found.sets)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    metadata = {
        _REFS: json.dumps([[ref.path, ref.part] for ref in refs]).encode(),
        _WORDS: str(found.sets.shape[1]).encode(),
        _SPANS: json.dumps([[int(member.time.min()), int(member.time.max())] for member in found.members]).encode(),
    }
    return write_file(folder, name, batch.schema.with_metadata(metadata), [batch])


@dataclass(frozen=True, slots=True, eq=False)
class CombinationFile:
    """A file of combinations, mapped into memory."""

    batch: pa.RecordBatch
    refs: tuple[PartRef, ...]
    words: int
    spans: tuple[tuple[int, int], ...]
    """The first and the last event time of each member."""

    @property
    def members(self) -> int:
        """The number of members of each combination."""
        return len(self.spans)

    @property
    def hashes(self) -> Array:
        """The hashes of the key by which the combinations are sorted."""
        values: Array = self.batch.column(HASH).to_numpy(zero_copy_only=True)
        return values

    @property
    def sets(self) -> Array:
        """The query-sets of the combinations."""
        return sets_from_arrow(self.batch.column(SETS), self.words)

    def has_index(self, place: str) -> bool:
        """Return whether the file has the index with this `place_id`."""
        return f"h:{place}" in self.batch.schema.names

    def index(self, place: str) -> tuple[Array, Array]:
        """Return an index: the sorted hashes and the position of each hash's combination (-1 where the key is NULL)."""
        return self._column(f"h:{place}"), self._column(f"o:{place}")

    def rows(self, member: int) -> tuple[Array, Array]:
        """Return the part numbers (positions in `refs`) and the row numbers of a member."""
        return self._column(f"p{member}"), self._column(f"r{member}")

    def member(self, at: int, numbers: Array) -> FileMember:
        """Return the member at a position. `numbers` maps the file's part numbers to those of the caller."""
        return FileMember(*self.rows(at), self._column(f"t{at}"), numbers)

    def combinations(self, span: slice, numbers: Array) -> Combinations:
        """Return a range of the combinations. `numbers` maps the file's part numbers to those of the caller."""
        members = tuple(
            Member(numbers[self._column(f"p{at}")[span]], self._column(f"r{at}")[span], self._column(f"t{at}")[span])
            for at in range(self.members)
        )
        hashes = self.hashes[span] if HASH in self.batch.schema.names else None
        return Combinations(members, self.sets[span], hashes)

    def _column(self, name: str) -> Array:
        values: Array = self.batch.column(name).to_numpy(zero_copy_only=True)
        return values


def open_combinations(path: Path) -> CombinationFile:
    """Map a file of combinations into memory."""
    file = DataFile(path)
    metadata = file.schema.metadata
    refs = tuple(PartRef(name, part) for name, part in json.loads(metadata[_REFS]))
    spans = tuple((first, last) for first, last in json.loads(metadata[_SPANS]))
    return CombinationFile(file.batch(0), refs, int(metadata[_WORDS]), spans)
