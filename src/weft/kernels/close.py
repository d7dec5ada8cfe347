"""Closing windows: slices merged into the windows that end, classes taken apart into queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numba as nb
import numpy as np
import numpy.typing as npt

from weft.kernels.bitset import WORD_BITS, Words, to_words
from weft.kernels.cell_kernels import fan_out, repeat_details
from weft.kernels.cells import LAST, ROWS, Array, Cells, Detail, add_lanes, merge_details, reduce_lanes
from weft.kernels.words import Longs

_AT_ONCE = 1 << 21
_MOST_TARGETS = 1 << 24
_BEFORE_ALL = -(2**62)


@dataclass(frozen=True, slots=True)
class SlidingQuery:
    """A query's windows in microseconds; those that begin before `start` are not its own."""

    slot: int
    size: int
    slide: int
    start: int | None


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A query's sessions: rows closer than `gap` microseconds belong together."""

    slot: int
    gap: int


@dataclass(frozen=True, slots=True)
class Closing:
    """A window [start, end) and the slots of the queries for which it ends now."""

    start: int
    end: int
    slots: tuple[int, ...]


def closing_windows(slices: Longs, queries: Iterable[SlidingQuery], *, after: int | None, upto: int) -> list[Closing]:
    """Windows with after < end <= upto that hold one of the slices: no others can have a row."""
    begins = np.unique(slices)
    found: dict[tuple[int, int], list[int]] = {}
    by_shape: dict[tuple[int, int], list[SlidingQuery]] = {}
    for query in queries:
        by_shape.setdefault((query.size, query.slide), []).append(query)
    for (size, slide), same in by_shape.items():
        low = (_BEFORE_ALL if after is None else after) - size
        first = np.maximum((begins - size) // slide, low // slide) + 1
        last = np.minimum(begins // slide, (upto - size) // slide)
        for start in _spelled_out(first, last) * slide:
            for query in same:
                if query.start is None or start >= query.start:
                    found.setdefault((int(start), int(start) + size), []).append(query.slot)
    return [Closing(start, end, tuple(slots)) for (start, end), slots in sorted(found.items())]


def _spelled_out(first: Longs, last: Longs) -> Longs:
    """All numbers in some ranges (both ends included), once."""
    counts = np.maximum(last - first + 1, 0)
    ends = np.cumsum(counts)
    steps = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return np.unique(np.repeat(first, counts) + steps)


def close_sliding(cells: Cells, closings: Sequence[Closing]) -> Iterator[Cells]:
    """For each window the cells of its queries: a slice is the window's start, a class is one query."""
    if len(cells) == 0:
        return
    cells = in_order(cells)
    for closing in closings:
        start, end = np.searchsorted(cells.slices, (closing.start, closing.end))
        most = max(1, _MOST_TARGETS // max(cells.group_count, 1))
        for first in range(0, len(closing.slots), most):
            slots = closing.slots[first : first + most]
            merged = _merge_window(cells, int(start), int(end), slots)
            if merged is not None:
                yield replace(merged, slices=np.full(len(merged), closing.start))


def in_order(cells: Cells) -> Cells:
    """The cells in the order of their slices."""
    if (cells.slices[1:] >= cells.slices[:-1]).all():
        return cells
    return cells.take(np.argsort(cells.slices, kind="stable"))


def _merge_window(cells: Cells, start: int, end: int, slots: tuple[int, ...]) -> Cells | None:
    """Cells start … end − 1 (of one window) for each of the queries."""
    offsets, members = _members(cells.sets, slots)
    groups, count = cells.group_count, len(slots) * cells.group_count
    out: dict[str, Array] = {}
    entries: dict[str, list[Detail]] = {name: [] for name in cells.details}
    while start < end:
        source, member, stop = fan_out(cells.classes[:end], offsets, members, start, _AT_ONCE)
        target = member * groups + cells.group[source]
        add_lanes(cells.lanes, source, target, out=out, count=count)
        for name, detail in cells.details.items():
            rows, owners = repeat_details(detail.cells, source, target)
            entries[name].append(Detail(owners, detail.codes[rows], detail.weights[rows]))
        start = stop
    found = np.flatnonzero(out[ROWS]) if out else np.empty(0, np.int64)
    if len(found) == 0:
        return None
    numbers = np.full(count, -1, np.int64)
    numbers[found] = np.arange(len(found))
    return replace(
        cells,
        sets=one_bit_sets(slots, cells.sets.shape[1]),
        slices=found,
        classes=found // groups,
        group=found % groups,
        lanes={name: values[found] for name, values in out.items()},
        details={name: _renumbered(name, parts, numbers) for name, parts in entries.items()},
    )


def _renumbered(name: str, parts: Sequence[Detail], numbers: Longs) -> Detail:
    joined = Detail(
        numbers[np.concatenate([part.cells for part in parts])],
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )
    return merge_details(name, joined)


def one_bit_sets(slots: Sequence[int], words: int) -> Words:
    """A query-set for each slot alone."""
    return np.stack([to_words(1 << slot, words) for slot in slots])


def has_slot(sets: Words, slot: int) -> npt.NDArray[np.bool_]:
    """Which query-sets have the slot."""
    return ((sets[:, slot // WORD_BITS] >> np.uint64(slot % WORD_BITS)) & np.uint64(1)).astype(np.bool_)


def _members(sets: Words, slots: Sequence[int]) -> tuple[Longs, Longs]:
    """For each class the numbers of those of the slots it has, one list after the other."""
    table = np.stack([has_slot(sets, slot) for slot in slots], axis=1)
    return np.concatenate([[0], np.cumsum(table.sum(axis=1))]), np.nonzero(table)[1].astype(np.int64)


# ---- sessions


@nb.njit(cache=True, nogil=True)
def number_sessions(keys: Longs, first: Longs, last: Longs, gap: int) -> tuple[Longs, Longs, Longs]:
    """Sessions of runs sorted by (key, first): the number of each, and where each session begins and ends."""
    numbers = np.empty(len(keys), np.int64)
    begins, ends = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    count = 0
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1] or first[i] - ends[count - 1] >= gap:
            begins[count] = first[i]
            ends[count] = last[i]
            count += 1
        elif last[i] > ends[count - 1]:
            ends[count - 1] = last[i]
        numbers[i] = count - 1
    return numbers, begins[:count].copy(), ends[:count].copy()


@dataclass(frozen=True, slots=True, eq=False)
class ClosedSessions:
    """The cells of sessions that end now, and which of the given cells are in sessions that are still open."""

    cells: tuple[Cells, ...]
    open: npt.NDArray[np.bool_]


def close_sessions(cells: Cells, queries: Iterable[SessionQuery], *, after: int | None, upto: int) -> ClosedSessions:
    """Sessions whose end is in (after, upto]: a slice is the session's first time, lane `last` its last one."""
    closed, still_open = [], np.zeros(len(cells), np.bool_)
    for query in queries:
        mine = np.flatnonzero(has_slot(cells.sets, query.slot)[cells.classes])
        mine = mine[np.lexsort((cells.slices[mine], cells.group[mine]))]
        if len(mine) == 0:
            continue
        group, last = cells.group[mine], cells.lanes[LAST][mine]
        numbers, begins, ends = number_sessions(group, cells.slices[mine], last, query.gap)
        ended = ends + query.gap <= upto
        still_open[mine[~ended[numbers]]] = True
        if after is not None:
            ended &= ends + query.gap > after
        if not ended.any():
            continue
        targets = np.where(ended, np.cumsum(ended) - 1, -1)
        count = int(ended.sum())
        lanes, details = reduce_lanes(cells, mine, targets[numbers], count)
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        closed.append(
            replace(
                cells,
                sets=one_bit_sets((query.slot,), cells.sets.shape[1]),
                slices=begins[ended],
                classes=np.zeros(count, np.int64),
                group=group[firsts[ended]],
                lanes=lanes,
                details=details,
            )
        )
    return ClosedSessions(tuple(closed), still_open)
