"""Close sliding windows: merge slices into windows, and query-set classes into queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from weft.kernels.aggregate.cells import (
    ROWS,
    SPREAD,
    Array,
    Cells,
    Detail,
    add_lanes,
    align,
    concat_entries,
    empty_lane,
    lane_argument,
    lane_kind,
    lane_of,
    merge_details,
)
from weft.kernels.aggregate.loops import (
    ADD,
    KEEP_GREATEST,
    KEEP_LEAST,
    fan_out,
    merge_classes_into,
    merge_runs_into,
    repeat_details,
    table_places,
)
from weft.kernels.aggregate.sort_codes import Flags, Longs, distinct
from weft.kernels.bitset import Words, rows_with_slot, set_to_words
from weft.plan.time import TIME_MIN, clamp_time

_AT_ONCE = 1 << 21
_MOST_TARGETS = 1 << 23
_FEW_LANES = 4
"""Above this many lanes, process proportionally fewer targets at a time to bound memory."""
_SPARSE = 8.0
"""Adding one cell to a query costs about as much as adding this many groups of a class table."""


@dataclass(frozen=True, slots=True)
class SlidingQuery:
    """A query's windows in microseconds. Windows that begin before `start` do not belong to the query."""

    slot: int
    size: int
    slide: int
    start: int | None


@dataclass(frozen=True, slots=True)
class Closing:
    """A window [start, end) and the slots of the queries for which to close it."""

    start: int
    end: int
    slots: tuple[int, ...]


def closing_windows(slices: Longs, queries: Iterable[SlidingQuery], *, after: int | None, upto: int) -> list[Closing]:
    """Return the windows with after < end <= upto that hold one of the slices; other windows have no rows."""
    begins = distinct(slices)
    closings: dict[tuple[int, int], list[int]] = {}
    by_shape: dict[tuple[int, int], list[SlidingQuery]] = {}
    for query in queries:
        by_shape.setdefault((query.size, query.slide), []).append(query)
    for (size, slide), same_shape in by_shape.items():
        # A window that begins before TIME_MIN cannot be represented and is not reported.
        lowest = -(-TIME_MIN // slide)
        if after is not None:
            lowest = max(lowest, (after - size) // slide + 1)
        first = np.maximum((np.maximum(begins, TIME_MIN + size) - size) // slide + 1, lowest)
        first[begins < TIME_MIN + size] = lowest
        last = np.minimum(begins // slide, clamp_time((upto - size) // slide))
        for start in _spelled_out(first, last) * slide:
            for query in same_shape:
                if query.start is None or start >= query.start:
                    closings.setdefault((int(start), int(start) + size), []).append(query.slot)
    return [Closing(start, end, tuple(slots)) for (start, end), slots in sorted(closings.items())]


def closing_whole_windows(
    starts: Longs, queries: Iterable[SlidingQuery], *, after: int | None, upto: int
) -> list[Closing]:
    """Return the windows with after < end <= upto that begin at one of `starts`, as intervals [start, start + 1).

    Used where each cell covers a whole window and its slice is the window's start.
    """
    begins = distinct(starts)
    closings: dict[int, list[int]] = {}
    for query in queries:
        closed = (begins % query.slide == 0) & (begins <= upto - query.size)
        closed &= True if query.start is None else begins >= query.start
        closed &= True if after is None else begins > after - query.size
        for start in begins[closed]:
            closings.setdefault(int(start), []).append(query.slot)
    return [Closing(start, start + 1, tuple(slots)) for start, slots in sorted(closings.items())]


def _spelled_out(first: Longs, last: Longs) -> Longs:
    """Return the distinct numbers of all ranges first … last."""
    counts = np.where(last >= first, last - first + 1, 0)
    ends = np.cumsum(counts)
    steps = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return distinct(np.repeat(first, counts) + steps)


def in_closing_order(closings: Iterable[Closing]) -> list[Closing]:
    """Sort windows by end, shorter ones first: a longer window then extends the merged slices of a shorter one."""
    return sorted(closings, key=lambda closing: (closing.end, -closing.start))


class WindowMerger:
    """A merger of slices into the class tables of a window, and of classes into queries; windows share the tables.

    `parts` are the cells, none of them empty. `wanted` maps the text of an argument to the slots that need its lanes;
    None means that all slots need all lanes.
    """

    def __init__(self, parts: Sequence[Cells], wanted: Mapping[str, int] | None = None) -> None:
        self._parts = parts = align(parts)
        self._wanted = wanted
        self._runs = [_runs(part.slices) for part in parts]
        self._spans = [(int(part.slices[run].min()), int(part.slices[run].max())) for part, run in self._run_parts()]
        self._has: dict[int, Flags] = {}
        self._places: dict[tuple[int, int], npt.NDArray[np.int32]] = {}
        self._names = list(dict.fromkeys(name for part in parts for name in part.lanes))
        self._spreads = sorted({lane_argument(name) for name in self._names if lane_kind(name) == "mean"})
        spread_lanes = {f"{kind}:{argument}" for argument in self._spreads for kind in SPREAD}
        self._apart = [name for name in self._names if name not in spread_lanes]
        self._groups, self._classes = parts[0].group_count, len(parts[0].sets)
        self._width = max(1, min(self._groups, _MOST_TARGETS // max(1, self._classes)))
        self._done: tuple[int, int] | None = None
        self._tables: list[dict[str, Array]] = []

    @property
    def groups(self) -> Cells:
        """Cells that have the groups of all parts."""
        return self._parts[0]

    def slices(self) -> Longs:
        """Return the distinct starts of all slices."""
        return distinct(np.concatenate([part.slices[run] for part, run in self._run_parts()]))

    def _run_parts(self) -> Iterator[tuple[Cells, Longs]]:
        """Iterate over the parts and the starts of their runs of cells of one slice."""
        return zip(self._parts, (starts for starts, _ in self._runs), strict=True)

    def _classes_with(self, slot: int) -> Flags:
        """Return which classes have the slot."""
        if slot not in self._has:
            self._has[slot] = rows_with_slot(self._parts[0].sets, slot)
        return self._has[slot]

    def close(self, closing: Closing) -> Iterator[Cells]:
        """Yield a window's cells: one class per query, the window's start as slice. Close in `in_closing_order`."""
        most = max(1, _MOST_TARGETS // max(1, self._groups * (1 + len(self._names) // _FEW_LANES)))
        for first in range(0, len(closing.slots), most):
            slots = closing.slots[first : first + most]
            lanes = self._dense(closing, slots) if self._is_dense(closing, slots) else self._sparse(closing, slots)
            if lanes is not None:
                yield self._cells(closing, slots, lanes)

    def _is_dense(self, closing: Closing, slots: tuple[int, ...]) -> bool:
        """Return whether merging whole class tables is cheaper than merging single cells."""
        members = np.stack([self._classes_with(slot) for slot in slots], axis=1).sum(axis=1)
        cells = sum(len(self._parts[number]) for number in self._meeting(closing.start, closing.end))
        by_cell = cells * float(members.mean())
        return float(members.sum()) * self._groups <= _SPARSE * by_cell

    def _meeting(self, start: int, end: int) -> list[int]:
        """Return the numbers of the parts that may have slices in [start, end)."""
        return [number for number, (low, high) in enumerate(self._spans) if low < end and high >= start]

    def _dense(self, closing: Closing, slots: tuple[int, ...]) -> dict[str, Array] | None:
        self._add_slices(closing)
        out = {name: empty_lane(name, len(slots) * self._groups) for name in self._names}
        self._add_spreads(closing, slots, out)
        classes = np.stack([self._classes_with(slot) for slot in slots])
        for number, table in enumerate(self._tables):
            first, last = self._range(number)
            for name, values in table.items():
                offsets, members = _lists(classes & self._needed(slots, name)[:, None])
                piece = empty_lane(name, len(slots) * (last - first))
                merge_classes_into(offsets, members, last - first, _operation(name), values, piece)
                out[name].reshape(len(slots), self._groups)[:, first:last] = piece.reshape(len(slots), -1)
        return out

    def _add_spreads(self, closing: Closing, slots: tuple[int, ...], out: dict[str, Array]) -> None:
        """Merge counts, means and squares cell by cell: one formula needs all three lanes."""
        for argument in self._spreads:
            names = [f"{kind}:{argument}" for kind in SPREAD]
            chosen = self._needed(slots, names[0])
            for part, source, target in self._fanned_out(closing, slots, chosen):
                lanes = {name: lane_of(part, name) for name in names}
                add_lanes(lanes, source, target, out=out, count=len(slots) * self._groups)

    def _range(self, number: int) -> tuple[int, int]:
        return number * self._width, min((number + 1) * self._width, self._groups)

    def _add_slices(self, closing: Closing) -> None:
        """Fill the class tables for the window. If the window extends the previous one, add only the new slices."""
        if self._done is None or self._done[1] != closing.end or closing.start > self._done[0]:
            count = -(-self._groups // self._width)
            sizes = [(last - first) * self._classes for first, last in map(self._range, range(count))]
            self._tables = [{name: empty_lane(name, size) for name in self._apart} for size in sizes]
            upto = closing.end
        else:
            upto = self._done[0]
        self._done = (closing.start, closing.end)
        for part_number in self._meeting(closing.start, upto):
            part, (starts, ends) = self._parts[part_number], self._runs[part_number]
            inside = (part.slices[starts] >= closing.start) & (part.slices[starts] < upto)
            runs = (starts[inside], ends[inside])
            for number, table in enumerate(self._tables):
                places = self._places_of(part_number, number)
                for name in self._apart:
                    merge_runs_into(places, runs, _operation(name), lane_of(part, name), table[name])

    def _places_of(self, part: int, table: int) -> npt.NDArray[np.int32]:
        """Return the places of a part's cells in a table, which are the same for all lanes and windows."""
        if (part, table) not in self._places:
            cells = self._parts[part]
            self._places[part, table] = table_places(cells.classes, cells.group, *self._range(table))
        return self._places[part, table]

    def _needed(self, slots: tuple[int, ...], name: str) -> Flags:
        users = None if self._wanted is None else self._wanted.get(lane_argument(name))
        return np.array([users is None or bool(users >> slot & 1) for slot in slots])

    def _sparse(self, closing: Closing, slots: tuple[int, ...]) -> dict[str, Array] | None:
        out: dict[str, Array] = {}
        count = len(slots) * self._groups
        for part, source, target in self._fanned_out(closing, slots, np.ones(len(slots), np.bool_)):
            lanes = {name: lane_of(part, name) for name in self._names}
            add_lanes(lanes, source, target, out=out, count=count)
        return out or None

    def _fanned_out(
        self, closing: Closing, slots: tuple[int, ...], chosen: Flags
    ) -> Iterator[tuple[Cells, Longs, Longs]]:
        """Yield blocks of (part, cells of the window, target of each cell) for the chosen queries."""
        offsets, members = _lists(np.stack([self._classes_with(slot) for slot in slots], axis=1) & chosen)
        for part in (self._parts[number] for number in self._meeting(closing.start, closing.end)):
            rows = np.flatnonzero((part.slices >= closing.start) & (part.slices < closing.end))
            start, classes = 0, part.classes[rows]
            while start < len(rows):
                cells, member, start = fan_out(classes, offsets, members, start, _AT_ONCE)
                source = rows[cells]
                yield part, source, member * self._groups + part.group[source]

    def _cells(self, closing: Closing, slots: tuple[int, ...], lanes: dict[str, Array]) -> Cells:
        used = np.flatnonzero(lanes[ROWS])
        return replace(
            self._parts[0],
            sets=one_bit_sets(slots, self._parts[0].sets.shape[1]),
            slices=np.full(len(used), closing.start),
            classes=used // self._groups,
            group=used % self._groups,
            lanes={name: values[used] for name, values in lanes.items()},
            details=self._details(closing, slots, used),
        )

    def _details(self, closing: Closing, slots: tuple[int, ...], used: Longs) -> dict[str, Detail]:
        numbers = np.full(len(slots) * self._groups, -1, np.int64)
        numbers[used] = np.arange(len(used))
        out = {}
        for name in dict.fromkeys(name for part in self._parts for name in part.details):
            entries = []
            for part, source, target in self._fanned_out(closing, slots, self._needed(slots, name)):
                if name in part.details:
                    detail = part.details[name]
                    rows, owners = repeat_details(detail.cells, source, target)
                    entries.append(Detail(numbers[owners], detail.codes[rows], detail.weights[rows]))
            if entries:
                out[name] = merge_details(name, concat_entries(entries))
        return out


def _runs(slices: Longs) -> tuple[Longs, Longs]:
    """Return where runs of cells of one slice begin and end. Cells are written slice by slice, so runs are few."""
    first = np.ones(len(slices), np.bool_)
    first[1:] = slices[1:] != slices[:-1]
    starts = np.flatnonzero(first)
    return starts, np.append(starts[1:], len(slices))


def _lists(table: Flags) -> tuple[Longs, Longs]:
    """Return the offsets and the concatenation of the lists of columns that are set in each row of a table."""
    return np.concatenate([[0], np.cumsum(table.sum(axis=1))]), np.nonzero(table)[1].astype(np.int64)


def _operation(name: str) -> int:
    match lane_kind(name):
        case "min":
            return KEEP_LEAST
        case "max" | "last":
            return KEEP_GREATEST
        case _:
            return ADD


def one_bit_sets(slots: Sequence[int], words: int) -> Words:
    """Return one query-set per slot, which contains only that slot."""
    return np.stack([set_to_words(1 << slot, words) for slot in slots])
