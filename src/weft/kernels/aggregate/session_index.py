"""An index of open sessions, so that a batch reads only few of their cells.

A batch needs the cells whose session may close, found by last time, and all other cells of their groups, found by the
hash of the group's keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.kernels.aggregate.cells import Cells
from weft.kernels.aggregate.sessions import SessionQuery
from weft.kernels.aggregate.sort_codes import Longs, distinct
from weft.plan.time import clamp_time

Ints = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class SessionIndex:
    """Orders of the cells and groups of a part, stored with the part so that a search reads only a few pages."""

    by_last: Ints
    """Cells by their last time."""
    hashes: Hashes
    """The hash of the partition keys of each group."""
    by_hash: Ints
    """Groups by their hashes."""
    by_group: Ints
    """Cells by their group."""
    starts: Longs
    """Where the cells of each group begin in `by_group`; the last entry is the end."""

    def ending(self, last: Longs, spans: Iterable[tuple[int | None, int]]) -> Longs:
        """Return the cells whose last time is in one of the spans (after, upto]."""
        ranges = [np.empty(0, np.int32)]
        for after, upto in spans:
            begin = 0 if after is None else int(np.searchsorted(last, after, side="right", sorter=self.by_last))
            end = int(np.searchsorted(last, upto, side="right", sorter=self.by_last))
            ranges.append(self.by_last[begin:end])
        return distinct(np.concatenate(ranges).astype(np.int64))

    def newest(self, last: Longs) -> int:
        """Return the latest of the cells' last times."""
        return int(last[self.by_last[-1]])

    def groups_with(self, hashes: Hashes) -> Longs:
        """Return the groups whose keys have one of the (distinct) hashes."""
        begins = np.searchsorted(self.hashes, hashes, side="left", sorter=self.by_hash)
        ends = np.searchsorted(self.hashes, hashes, side="right", sorter=self.by_hash)
        return distinct(self.by_hash[concat_ranges(begins, ends)].astype(np.int64))

    def cells_of(self, groups: Longs) -> Longs:
        """Return the cells of these groups, sorted."""
        return distinct(self.by_group[concat_ranges(self.starts[groups], self.starts[groups + 1])].astype(np.int64))


def index_sessions(group: Longs, last: Longs, hashes: Hashes) -> SessionIndex:
    """Return the index of cells, given the group and last time of each cell and the hash of each group."""
    counts = np.bincount(group, minlength=len(hashes))
    return SessionIndex(
        by_last=np.argsort(last, kind="stable").astype(np.int32),
        hashes=hashes,
        by_hash=np.argsort(hashes, kind="stable").astype(np.int32),
        by_group=np.argsort(group, kind="stable").astype(np.int32),
        starts=np.concatenate([[0], np.cumsum(counts)]),
    )


def chosen_cells(cells: Cells, rows: Longs) -> Cells:
    """Return some cells of a memory-mapped part with only their groups, without reading the rest of the part."""
    chosen = cells.take(rows)
    group = chosen.group.astype(np.int64)
    groups = distinct(group)
    places = pa.array(groups)
    return replace(
        chosen,
        groups=tuple(column.take(places) for column in cells.groups),
        group_count=len(groups),
        classes=chosen.classes.astype(np.int64),
        group=np.searchsorted(groups, group),
    )


def concat_ranges(begins: Longs, ends: Longs) -> Longs:
    """Return the concatenated numbers of the ranges begins[i] … ends[i] − 1."""
    counts = np.maximum(ends - begins, 0)
    stops = np.cumsum(counts)
    steps = np.arange(int(stops[-1]) if len(stops) else 0) - np.repeat(stops - counts, counts)
    numbers: Longs = np.repeat(begins, counts) + steps
    return numbers


def ending_spans(queries: Iterable[SessionQuery], *, after: int | None, upto: int) -> list[tuple[int | None, int]]:
    """Return the spans (after, upto] that contain the last time of every session that closes now."""
    spans: dict[tuple[int | None, int], None] = {}
    for query in queries:
        spans[None if after is None else clamp_time(after - query.gap), clamp_time(upto - query.gap)] = None
        if query.cut is not None:
            begin = None if after is None else clamp_time(after // query.cut * query.cut - 1)
            spans[begin, clamp_time(upto // query.cut * query.cut - 1)] = None
    return list(spans)


def surely_open_after(queries: Iterable[SessionQuery], upto: int) -> int:
    """Return a time such that every later row is in a session that is still open for at least one of the queries."""
    return min(
        max(upto - query.gap, upto // query.cut * query.cut - 1) if query.cut is not None else upto - query.gap
        for query in queries
    )
