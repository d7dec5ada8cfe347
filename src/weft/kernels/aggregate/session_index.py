"""Finding the few cells that a batch has to look at among all open sessions: those that may end, by their last time,
and all others of the same groups, by the hash of the group's keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.kernels.aggregate.cells import Cells
from weft.kernels.aggregate.sessions import SessionQuery
from weft.kernels.aggregate.sort_codes import Longs, distinct
from weft.plan.time import held

Ints = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class SessionIndex:
    """Orders of the cells of a part: none of them needs to be read as a whole."""

    by_last: Ints
    """Cells by their last time."""
    hashes: Hashes
    """Of the keys that each group is partitioned by."""
    by_hash: Ints
    """Groups by their hashes."""
    by_group: Ints
    """Cells by their group."""
    starts: Longs
    """Where the cells of each group begin there, and behind the last one where they end."""

    def ending(self, last: Longs, spans: Iterable[tuple[int | None, int]]) -> Longs:
        """Cells whose last time is in one of the spans (after, upto]."""
        found = [np.empty(0, np.int32)]
        for after, upto in spans:
            begin = 0 if after is None else int(np.searchsorted(last, after, side="right", sorter=self.by_last))
            end = int(np.searchsorted(last, upto, side="right", sorter=self.by_last))
            found.append(self.by_last[begin:end])
        return distinct(np.concatenate(found).astype(np.int64))

    def newest(self, last: Longs) -> int:
        """The latest of the cells' last times."""
        return int(last[self.by_last[-1]])

    def groups_with(self, hashes: Hashes) -> Longs:
        """The groups whose keys have one of the hashes (each given once)."""
        begins = np.searchsorted(self.hashes, hashes, side="left", sorter=self.by_hash)
        ends = np.searchsorted(self.hashes, hashes, side="right", sorter=self.by_hash)
        return distinct(self.by_hash[spelled_out(begins, ends)].astype(np.int64))

    def cells_of(self, groups: Longs) -> Longs:
        """The cells of some groups, in order."""
        return distinct(self.by_group[spelled_out(self.starts[groups], self.starts[groups + 1])].astype(np.int64))


def index_sessions(group: Longs, last: Longs, hashes: Hashes) -> SessionIndex:
    """The index of cells by their groups and last times; `hashes` are by group."""
    counts = np.bincount(group, minlength=len(hashes))
    return SessionIndex(
        by_last=np.argsort(last, kind="stable").astype(np.int32),
        hashes=hashes,
        by_hash=np.argsort(hashes, kind="stable").astype(np.int32),
        by_group=np.argsort(group, kind="stable").astype(np.int32),
        starts=np.concatenate([[0], np.cumsum(counts)]),
    )


def chosen_cells(cells: Cells, rows: Longs) -> Cells:
    """Some cells of a part that is mapped, with their own groups only; no more of it is read."""
    taken = cells.take(rows)
    group = taken.group.astype(np.int64)
    groups = distinct(group)
    places = pa.array(groups)
    return replace(
        taken,
        groups=tuple(column.take(places) for column in cells.groups),
        group_count=len(groups),
        classes=taken.classes.astype(np.int64),
        group=np.searchsorted(groups, group),
    )


def spelled_out(begins: Longs, ends: Longs) -> Longs:
    """All numbers of some ranges, one range after the other; their ends are not included."""
    counts = np.maximum(ends - begins, 0)
    stops = np.cumsum(counts)
    steps = np.arange(int(stops[-1]) if len(stops) else 0) - np.repeat(stops - counts, counts)
    found: Longs = np.repeat(begins, counts) + steps
    return found


def ending_spans(queries: Iterable[SessionQuery], *, after: int | None, upto: int) -> list[tuple[int | None, int]]:
    """In which spans (after, upto] the last time is of a row that is the last of a session which ends now."""
    found: dict[tuple[int | None, int], None] = {}
    for query in queries:
        found[None if after is None else held(after - query.gap), held(upto - query.gap)] = None
        if query.cut is not None:
            begin = None if after is None else held(after // query.cut * query.cut - 1)
            found[begin, held(upto // query.cut * query.cut - 1)] = None
    return list(found)


def surely_open_after(queries: Iterable[SessionQuery], upto: int) -> int:
    """A row that is later than this is in a session which goes on, of some of the queries."""
    return min(
        max(upto - query.gap, upto // query.cut * query.cut - 1) if query.cut is not None else upto - query.gap
        for query in queries
    )
