"""Closing windows: slices merged into the windows that end, classes taken apart into queries."""

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
from weft.kernels.bitset import Words, column_of, set_to_words
from weft.plan.time import TIME_MIN, held

_AT_ONCE = 1 << 21
_MOST_TARGETS = 1 << 23
_FEW_LANES = 4
"""For each so many lanes more, fewer targets at once: it is memory that counts."""
_SPARSE = 8.0
"""Adding a cell to a query costs about as much as adding so many groups of a class at once."""


@dataclass(frozen=True, slots=True)
class SlidingQuery:
    """A query's windows in microseconds; those that begin before `start` are not its own."""

    slot: int
    size: int
    slide: int
    start: int | None


@dataclass(frozen=True, slots=True)
class Closing:
    """A window [start, end) and the slots of the queries for which it ends now."""

    start: int
    end: int
    slots: tuple[int, ...]


def closing_windows(slices: Longs, queries: Iterable[SlidingQuery], *, after: int | None, upto: int) -> list[Closing]:
    """Windows with after < end <= upto that hold one of the slices: no others can have a row."""
    begins = distinct(slices)
    found: dict[tuple[int, int], list[int]] = {}
    by_shape: dict[tuple[int, int], list[SlidingQuery]] = {}
    for query in queries:
        by_shape.setdefault((query.size, query.slide), []).append(query)
    for (size, slide), same in by_shape.items():
        # A window that begins before the earliest time cannot be written down, and nobody reports it.
        lowest = -(-TIME_MIN // slide)
        if after is not None:
            lowest = max(lowest, (after - size) // slide + 1)
        first = np.maximum((np.maximum(begins, TIME_MIN + size) - size) // slide + 1, lowest)
        first[begins < TIME_MIN + size] = lowest
        last = np.minimum(begins // slide, held((upto - size) // slide))
        for start in _spelled_out(first, last) * slide:
            for query in same:
                if query.start is None or start >= query.start:
                    found.setdefault((int(start), int(start) + size), []).append(query.slot)
    return [Closing(start, end, tuple(slots)) for (start, end), slots in sorted(found.items())]


def closing_wholes(starts: Longs, queries: Iterable[SlidingQuery], *, after: int | None, upto: int) -> list[Closing]:
    """Windows with after < end <= upto that begin at one of these times, where each cell is of one whole window; each
    is closed as the tick it begins with, since nothing that begins later is part of it."""
    begins = distinct(starts)
    found: dict[int, list[int]] = {}
    for query in queries:
        own = (begins % query.slide == 0) & (begins <= upto - query.size)
        own &= True if query.start is None else begins >= query.start
        own &= True if after is None else begins > after - query.size
        for start in begins[own]:
            found.setdefault(int(start), []).append(query.slot)
    return [Closing(start, start + 1, tuple(slots)) for start, slots in sorted(found.items())]


def _spelled_out(first: Longs, last: Longs) -> Longs:
    """All numbers in some ranges (both ends included), once."""
    counts = np.where(last >= first, last - first + 1, 0)
    ends = np.cumsum(counts)
    steps = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return distinct(np.repeat(first, counts) + steps)


def in_closing_order(closings: Iterable[Closing]) -> list[Closing]:
    """Windows with one end follow each other, the shorter first: they share the younger slices."""
    return sorted(closings, key=lambda each: (each.end, -each.start))


class WindowMerger:
    """Merges slices into classes of a window, and classes into queries; keeps the classes for the next window.

    `parts` are the cells (none of them empty); `wanted` gives the slots that need the lanes of an argument, by its
    text (None: all need all).
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
        together = {f"{kind}:{argument}" for argument in self._spreads for kind in SPREAD}
        self._apart = [name for name in self._names if name not in together]
        self._groups, self._classes = parts[0].group_count, len(parts[0].sets)
        self._width = max(1, min(self._groups, _MOST_TARGETS // max(1, self._classes)))
        self._done: tuple[int, int] | None = None
        self._tables: list[dict[str, Array]] = []

    @property
    def groups(self) -> Cells:
        """Cells that have all groups."""
        return self._parts[0]

    def slices(self) -> Longs:
        """Where its slices begin, each once."""
        return distinct(np.concatenate([part.slices[run] for part, run in self._run_parts()]))

    def _run_parts(self) -> Iterator[tuple[Cells, Longs]]:
        """Parts with where their runs of one slice begin."""
        return zip(self._parts, (starts for starts, _ in self._runs), strict=True)

    def _classes_with(self, slot: int) -> Flags:
        """Which classes have the slot."""
        if slot not in self._has:
            self._has[slot] = column_of(self._parts[0].sets, slot)
        return self._has[slot]

    def close(self, closing: Closing) -> Iterator[Cells]:
        """The cells of a window: a slice is the window's start, a class is one query. Windows should come in the order
        of `in_closing_order`."""
        most = max(1, _MOST_TARGETS // max(1, self._groups * (1 + len(self._names) // _FEW_LANES)))
        for first in range(0, len(closing.slots), most):
            slots = closing.slots[first : first + most]
            lanes = self._dense(closing, slots) if self._is_dense(closing, slots) else self._sparse(closing, slots)
            if lanes is not None:
                yield self._cells(closing, slots, lanes)

    def _is_dense(self, closing: Closing, slots: tuple[int, ...]) -> bool:
        """Whether adding up whole classes takes less than adding up cells one by one."""
        members = np.stack([self._classes_with(slot) for slot in slots], axis=1).sum(axis=1)
        cells = sum(len(self._parts[number]) for number in self._meeting(closing.start, closing.end))
        by_cell = cells * float(members.mean())
        return float(members.sum()) * self._groups <= _SPARSE * by_cell

    def _meeting(self, start: int, end: int) -> list[int]:
        """Parts with slices in [start, end)."""
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
        """Means and squares merge together, cell by cell, for the queries that need them."""
        for argument in self._spreads:
            names = [f"{kind}:{argument}" for kind in SPREAD]
            chosen = self._needed(slots, names[0])
            for part, source, target in self._fanned_out(closing, slots, chosen):
                lanes = {name: lane_of(part, name) for name in names}
                add_lanes(lanes, source, target, out=out, count=len(slots) * self._groups)

    def _range(self, number: int) -> tuple[int, int]:
        return number * self._width, min((number + 1) * self._width, self._groups)

    def _add_slices(self, closing: Closing) -> None:
        """Bring the tables of classes to the window: by the slices it has more than the last one."""
        if self._done is None or self._done[1] != closing.end or closing.start > self._done[0]:
            count = -(-self._groups // self._width)
            sizes = [(last - first) * self._classes for first, last in map(self._range, range(count))]
            self._tables = [{name: empty_lane(name, size) for name in self._apart} for size in sizes]
            upto = closing.end
        else:
            upto = self._done[0]
        self._done = (closing.start, closing.end)
        for at in self._meeting(closing.start, upto):
            part, (starts, ends) = self._parts[at], self._runs[at]
            inside = (part.slices[starts] >= closing.start) & (part.slices[starts] < upto)
            runs = (starts[inside], ends[inside])
            for number, table in enumerate(self._tables):
                places = self._places_of(at, number)
                for name in self._apart:
                    merge_runs_into(places, runs, _operation(name), lane_of(part, name), table[name])

    def _places_of(self, part: int, table: int) -> npt.NDArray[np.int32]:
        """Where the cells of a part are in a table; the same for all lanes and windows."""
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
        """Cells of the window with each query's target, some at a time; only for the chosen queries."""
        offsets, members = _lists(np.stack([self._classes_with(slot) for slot in slots], axis=1) & chosen)
        for part in (self._parts[number] for number in self._meeting(closing.start, closing.end)):
            rows = np.flatnonzero((part.slices >= closing.start) & (part.slices < closing.end))
            start, classes = 0, part.classes[rows]
            while start < len(rows):
                cells, member, start = fan_out(classes, offsets, members, start, _AT_ONCE)
                source = rows[cells]
                yield part, source, member * self._groups + part.group[source]

    def _cells(self, closing: Closing, slots: tuple[int, ...], lanes: dict[str, Array]) -> Cells:
        found = np.flatnonzero(lanes[ROWS])
        return replace(
            self._parts[0],
            sets=one_bit_sets(slots, self._parts[0].sets.shape[1]),
            slices=np.full(len(found), closing.start),
            classes=found // self._groups,
            group=found % self._groups,
            lanes={name: values[found] for name, values in lanes.items()},
            details=self._details(closing, slots, found),
        )

    def _details(self, closing: Closing, slots: tuple[int, ...], found: Longs) -> dict[str, Detail]:
        numbers = np.full(len(slots) * self._groups, -1, np.int64)
        numbers[found] = np.arange(len(found))
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
    """Where runs of cells of one slice begin and end: there are few, since cells are written slice by slice."""
    first = np.ones(len(slices), np.bool_)
    first[1:] = slices[1:] != slices[:-1]
    starts = np.flatnonzero(first)
    return starts, np.append(starts[1:], len(slices))


def _lists(table: Flags) -> tuple[Longs, Longs]:
    """For each row of a table the columns that are set, one list after the other, and where each begins."""
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
    """A query-set for each slot alone."""
    return np.stack([set_to_words(1 << slot, words) for slot in slots])
