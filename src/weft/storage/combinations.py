"""Combinations of rows as matched lists: for each member a reference to a row, nothing of the row itself.

The same file serves three times: as the exchange between two probe stages, as a store of intermediate results, and as
a piece of the result log. Rows are written once, by the tag stage, and built only when results are read.
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
    """One member of every combination: which part its row is in (a number among the parts), which row, and when."""

    part: Array
    row: Array
    time: Array

    def take(self, rows: Array) -> Member:
        """Some of them."""
        return Member(self.part[rows], self.row[rows], self.time[rows])


@dataclass(frozen=True, slots=True, eq=False)
class PartMember:
    """All rows of one part, as members of combinations that are not written out."""

    number: int
    time: Array

    def take(self, rows: Array) -> Member:
        """Some of them."""
        return Member(np.full(len(rows), self.number, np.int32), rows.astype(np.int32, copy=False), self.time[rows])


@dataclass(frozen=True, slots=True, eq=False)
class FileMember:
    """A member of all combinations of a file; `numbers` gives the number of each of the file's references."""

    part: Array
    row: Array
    time: Array
    numbers: Array

    def take(self, rows: Array) -> Member:
        """Some of them."""
        return Member(self.numbers[self.part[rows]], self.row[rows], self.time[rows])


StoredMember = PartMember | FileMember


@dataclass(frozen=True, slots=True, eq=False)
class Combinations:
    """Combinations with the query-sets for which they qualify; members in the fixed order of inputs.

    `hashes` are of the key they are divided by, where they are.
    """

    members: tuple[Member, ...]
    sets: Array
    hashes: Array | None = None

    def __len__(self) -> int:
        return len(self.sets)

    def take(self, rows: Array) -> Combinations:
        """Some of them, in this order."""
        hashes = None if self.hashes is None else self.hashes[rows]
        return Combinations(tuple(each.take(rows) for each in self.members), np.take(self.sets, rows, axis=0), hashes)

    def with_sets(self, sets: Array) -> Combinations:
        """With other query-sets; without the combinations that no query is left for."""
        kept = sets.any(axis=1)
        found = Combinations(self.members, sets, self.hashes)
        return found if bool(kept.all()) else found.take(np.flatnonzero(kept))


def concat(parts: Sequence[Combinations]) -> Combinations:
    """All of some lists with the same members."""
    if len(parts) == 1:
        return parts[0]
    members = tuple(
        Member(*(np.concatenate([getattr(part.members[at], name) for part in parts]) for name in Member.__slots__))
        for at in range(len(parts[0].members))
    )
    hashes = [part.hashes for part in parts if part.hashes is not None]
    together = np.concatenate(hashes) if len(hashes) == len(parts) else None
    return Combinations(members, np.concatenate([part.sets for part in parts]), together)


Indexes = Mapping[str, tuple[Array, Array]]
"""By `place_id`: sorted hashes, and the combinations behind them."""


def place_id(owner: Input, index: Index) -> str:
    """Names the index by a key of one member."""
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
    """Write a list that is not empty; its part numbers are those of `refs`.

    Without `times` they can be read from the rows.
    """
    columns: dict[str, pa.Array] = {} if found.hashes is None else {HASH: pa.array(found.hashes)}
    narrow = np.int16 if len(refs) < 1 << 15 else np.int32
    for at, member in enumerate(found.members):
        columns |= {f"p{at}": pa.array(member.part.astype(narrow)), f"r{at}": pa.array(member.row, pa.int32())}
        if times:
            columns[f"t{at}"] = pa.array(member.time, pa.int64())
    for place, (hashes, rows) in (indexes or {}).items():
        columns |= {f"h:{place}": pa.array(hashes), f"o:{place}": pa.array(rows)}
    columns[SETS] = sets_to_arrow(found.sets)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    described = {
        _REFS: json.dumps([[ref.path, ref.part] for ref in refs]).encode(),
        _WORDS: str(found.sets.shape[1]).encode(),
        _SPANS: json.dumps([[int(each.time.min()), int(each.time.max())] for each in found.members]).encode(),
    }
    return write_file(folder, name, batch.schema.with_metadata(described), [batch])


@dataclass(frozen=True, slots=True, eq=False)
class CombinationFile:
    """A file of combinations, mapped into memory."""

    batch: pa.RecordBatch
    refs: tuple[PartRef, ...]
    words: int
    spans: tuple[tuple[int, int], ...]
    """First and last event time of each member."""

    @property
    def members(self) -> int:
        """How many members each combination has."""
        return len(self.spans)

    @property
    def hashes(self) -> Array:
        """Of the key they are sorted by."""
        values: Array = self.batch.column(HASH).to_numpy(zero_copy_only=True)
        return values

    @property
    def sets(self) -> Array:
        """The query-sets."""
        return sets_from_arrow(self.batch.column(SETS), self.words)

    def has_index(self, place: str) -> bool:
        """Whether it has an index."""
        return f"h:{place}" in self.batch.schema.names

    def index(self, place: str) -> tuple[Array, Array]:
        """Sorted hashes, and the combinations behind them; -1 where one has no key."""
        return self._column(f"h:{place}"), self._column(f"o:{place}")

    def rows(self, member: int) -> tuple[Array, Array]:
        """Part numbers (among the file's own references) and row numbers of a member."""
        return self._column(f"p{member}"), self._column(f"r{member}")

    def member(self, at: int, numbers: Array) -> FileMember:
        """A member of all of them; `numbers` gives the caller's number of each of the file's references."""
        return FileMember(*self.rows(at), self._column(f"t{at}"), numbers)

    def combinations(self, span: slice, numbers: Array) -> Combinations:
        """A range of them; `numbers` gives the caller's number of each of the file's references."""
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
    """Map a file of combinations."""
    file = DataFile(path)
    described = file.schema.metadata
    refs = tuple(PartRef(name, part) for name, part in json.loads(described[_REFS]))
    spans = tuple((first, last) for first, last in json.loads(described[_SPANS]))
    return CombinationFile(file.batch(0), refs, int(described[_WORDS]), spans)
