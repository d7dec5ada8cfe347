"""The probe stage of aggregation: windows that the watermark has passed are merged from slices and written.

Every partition knows the batch's newest event times, so windows close in the batch that advances the watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.execution.aggregate.open_sessions import Chosen, SessionCells
from weft.execution.aggregate.rewrite_sessions import OpenParts
from weft.execution.aggregate.stored_slices import load_cells
from weft.execution.program import AggregateClose, BatchTask, Program
from weft.execution.watermark import advance, closed_until
from weft.kernels.aggregate.cells import LAST, Cells, concat_cells, only_groups, reduce_lanes
from weft.kernels.aggregate.close_windows import (
    Closing,
    WindowMerger,
    closing_whole_windows,
    closing_windows,
    in_closing_order,
    one_bit_sets,
)
from weft.kernels.aggregate.factored import FactorSide, PairPlan, Windows, link_groups, pair_cells
from weft.kernels.aggregate.sessions import SessionQuery, close_sessions, join_sessions
from weft.kernels.aggregate.sort_codes import Flags, Longs
from weft.kernels.bitset import rows_with_slot
from weft.plan.identity import identity
from weft.plan.key import StoreId
from weft.plan.window import to_micros
from weft.storage.bucket import Bucket
from weft.storage.result_files import WindowResult
from weft.storage.slices import write_slices

_WRITTEN_AT_ONCE = 1 << 24
"""Values per result file: 100 to 200 MB."""


@dataclass(slots=True)
class Closed:
    """Result files of closed windows, and session buckets with open sessions (and which of their cells are open)."""

    results: list[WindowResult] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    parts: OpenParts = field(default_factory=OpenParts)

    def stay(self, paths: Iterable[str]) -> None:
        """Note buckets as open that were not searched."""
        self.open.update(paths)
        self.parts.whole.update(paths)


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """Windows with after < end <= upto close now; `upto` is None while nothing can close."""

    after: int | None
    upto: int | None


def window_limits(program: Program, task: BatchTask, newest: Mapping[str, int]) -> dict[tuple[str, ...], WindowLimits]:
    """Return the limits of the windows that close in this batch, by set of streams."""
    streams = {name: tag.stream for name, tag in program.streams.items()}
    watermarks = advance(streams, task.watermarks, newest)
    lateness = {name: to_micros(stream.lateness) for name, stream in streams.items()}
    idle, limits = task.idle - newest.keys(), {}
    for names in program.window_streams():
        before = task.closed.get(names)
        limits[names] = WindowLimits(
            before, closed_until(names, watermarks, idle=idle, before=before, lateness=lateness)
        )
    return limits


class SliceReader:
    """Cells of a partition by store, read once per task."""

    def __init__(self, program: Program, task: BatchTask, partition: int, buckets: Sequence[Bucket]) -> None:
        self._program, self._task, self._partition = program, task, partition
        self._buckets = buckets
        self.sessions = SessionCells(program, task, partition, buckets)
        self._mergers: dict[StoreId, WindowMerger | None] = {}

    def merger(self, store: StoreId) -> WindowMerger | None:
        """Return the merger that closes windows of a store for all aggregates; None if the store has no cells."""
        if store not in self._mergers:
            wanted = {identity(part): slots for part, slots in self._program.slices[store].users.items()}
            parts = self._cells(store)
            self._mergers[store] = WindowMerger(parts, wanted) if parts else None
        return self._mergers[store]

    def _cells(self, store: StoreId) -> list[Cells]:
        """Return the cells of a store, by part of a bucket."""
        side = self._program.slices[store].store.side
        buckets = [bucket for bucket in self._buckets if bucket.store == store]
        return load_cells(self._program, self._task, self._partition, buckets=buckets, side=side)


def close_windows(
    program: Program,
    task: BatchTask,
    partition: int,
    *,
    buckets: Sequence[Bucket],
    limits: Mapping[tuple[str, ...], WindowLimits],
    combined: bool = False,
) -> Closed:
    """Close the windows of all aggregating queries in one partition: those over combinations, or all others."""
    closed = Closed()
    reader = SliceReader(program, task, partition, buckets)
    for close in (close for close in program.aggregates if close.combined == combined):
        now = limits[close.aggregate.streams]
        sessions = [store for store in close.aggregate.stores if program.slices[store].store.side.session]
        if now.upto is None or now.after == now.upto:
            closed.stay({bucket.path for bucket in buckets if bucket.store in sessions})
            continue
        for pieces in _pieces(_close(close, reader, now, closed)):
            closed.results.append(_write(close, task, partition, pieces))
    return closed


def _pieces(all_cells: Iterable[Cells]) -> Iterator[list[Cells]]:
    """Yield lists of cells that go into one file each: a batch may close more windows than fit into memory."""
    pieces: list[Cells] = []
    values = 0
    for cells in all_cells:
        if len(cells):
            pieces.append(cells)
            values += len(cells) * (len(cells.lanes) + 1) + sum(len(detail.codes) for detail in cells.details.values())
        if values > _WRITTEN_AT_ONCE:
            yield pieces
            pieces, values = [], 0
    if pieces:
        yield pieces


def _close(close: AggregateClose, reader: SliceReader, limits: WindowLimits, closed: Closed) -> Iterator[Cells]:
    assert limits.upto is not None
    stores = close.aggregate.stores
    if close.sliding and _may_close(close, limits):
        mergers = [reader.merger(store) for store in stores]
        begins = [merger.slices() for merger in mergers if merger is not None]
        if len(begins) == len(stores):
            closing = closing_whole_windows if close.combined else closing_windows
            closings = closing(np.concatenate(begins), close.sliding, after=limits.after, upto=limits.upto)
            ready = [merger for merger in mergers if merger is not None]
            if len(ready) == 1:
                yield from (cells for window in in_closing_order(closings) for cells in ready[0].close(window))
            else:
                yield from _close_pairs(ready, closings, close.pairs)
    if close.sessions:
        due = reader.sessions.due(stores, close.sessions, after=limits.after, upto=limits.upto)
        closed.stay(due.open)
        if len(stores) == 1:
            yield from _close_sessions(due.sides[0], close.sessions, limits, closed)
        else:
            yield from _close_session_pairs(due.sides, close, limits, closed)


def _may_close(close: AggregateClose, limits: WindowLimits) -> bool:
    """Return whether any window closes in these limits; if not, nothing need be read."""
    if limits.after is None or limits.upto is None:
        return True
    shapes = {(query.size, query.slide) for query in close.sliding}
    return any((limits.upto - size) // slide > (limits.after - size) // slide for size, slide in shapes)


def _close_pairs(
    mergers: Sequence[WindowMerger], closings: Sequence[Closing], plans: Mapping[int, PairPlan]
) -> Iterator[Cells]:
    """Close both sides of each window separately, then multiply them key by key for each query."""
    left, right = (merger.groups for merger in mergers)
    *links, count = link_groups(left, right, _join_keys(left, next(iter(plans.values())), 0))
    for closing in in_closing_order(closings):
        sides = [list(merger.close(closing)) for merger in mergers]
        for slot in closing.slots:
            first, second = (_of_slot(side, slot) for side in sides)
            if first is None or second is None:
                continue
            pair = (FactorSide(first, links[0][first.group]), FactorSide(second, links[1][second.group]))
            joined = pair_cells(*pair, plans[slot], Windows(np.full(count, closing.start)))
            if joined is not None:
                yield replace(joined, sets=one_bit_sets((slot,), left.sets.shape[1]))


def _join_keys(cells: Cells, plan: PairPlan, side: int) -> int:
    """Return how many of a side's group columns are join keys: all that are not GROUP BY keys."""
    return len(cells.groups) - sum(1 for at, _ in plan.keys if at == side)


def _of_slot(parts: Sequence[Cells], slot: int) -> Cells | None:
    chosen = []
    for part in parts:
        rows = np.flatnonzero(rows_with_slot(part.sets, slot)[part.classes])
        if len(rows):
            chosen.append(part.take(rows))
    return concat_cells(chosen) if chosen else None


def _close_sessions(
    parts: Sequence[Chosen], queries: Sequence[SessionQuery], limits: WindowLimits, closed: Closed
) -> Iterator[Cells]:
    if not parts:
        return
    assert limits.upto is not None
    result = close_sessions(concat_cells([part.cells for part in parts]), queries, after=limits.after, upto=limits.upto)
    _note_open(parts, result.open, closed)
    yield from result.cells


def _note_open(parts: Sequence[Chosen], still_open: Flags, closed: Closed) -> None:
    start = 0
    for part in parts:
        flags = still_open[start : start + len(part.cells)]
        if flags.any():
            closed.open.add(part.bucket.path)
            closed.parts.note(part.bucket.path, part.number, part.count, part.rows[flags])
        start += len(part.cells)


def _close_session_pairs(
    parts: Sequence[Sequence[Chosen]], close: AggregateClose, limits: WindowLimits, closed: Closed
) -> Iterator[Cells]:
    """Close sessions that extend over the rows of both sides of a join key, and multiply the two sides."""
    assert limits.upto is not None
    filled = [number for number, side in enumerate(parts) if side]
    if not filled:
        return
    sides = [concat_cells([part.cells for part in parts[number]]) for number in filled]
    still_open = [np.zeros(len(side), np.bool_) for side in sides]
    keys = _join_keys(sides[0], next(iter(close.pairs.values())), filled[0])
    *links, _ = link_groups(sides[0], sides[-1], keys)
    for query in close.sessions:
        rows_by_side = [np.flatnonzero(rows_with_slot(cells.sets, query.slot)[cells.classes]) for cells in sides]
        sessions = join_sessions(
            [links[n][cells.group[rows]] for n, (cells, rows) in enumerate(zip(sides, rows_by_side, strict=True))],
            [cells.slices[rows] for cells, rows in zip(sides, rows_by_side, strict=True)],
            [cells.lanes[LAST][rows] for cells, rows in zip(sides, rows_by_side, strict=True)],
            query,
        )
        over, ended = query.ended(sessions, after=limits.after, upto=limits.upto)
        for flags, rows, session in zip(still_open, rows_by_side, sessions.numbers, strict=True):
            flags[rows[~over[session]]] = True
        if len(sides) < 2:  # nothing joins, but an open session may still meet rows of the other side
            continue
        pair = [_session_side(sides[n], rows_by_side[n], sessions.numbers[n], ended) for n in (0, 1)]
        windows = Windows(sessions.begins, query.last_times(sessions))
        joined = pair_cells(pair[0], pair[1], close.pairs[query.slot], windows)
        if joined is not None:
            yield replace(joined, sets=one_bit_sets((query.slot,), sides[0].sets.shape[1]))
    for number, flags in zip(filled, still_open, strict=True):
        _note_open(parts[number], flags, closed)


def _session_side(cells: Cells, rows: Longs, session: Longs, ended: Flags) -> FactorSide:
    """Return the cells of closed sessions, merged by session and group."""
    kept = ended[session]
    rows, session = rows[kept], session[kept]
    groups = max(cells.group_count, 1)
    keys, target = np.unique(session * groups + cells.group[rows], return_inverse=True)
    lanes, details = reduce_lanes(cells, rows, target.astype(np.int64), len(keys))
    merged = replace(
        cells,
        slices=keys // groups,
        classes=np.zeros(len(keys), np.int64),
        group=keys % groups,
        lanes=lanes,
        details=details,
    )
    return FactorSide(merged, keys // groups)


def _write(close: AggregateClose, task: BatchTask, partition: int, pieces: Sequence[Cells]) -> WindowResult:
    cells = concat_cells(pieces)
    cells = only_groups(cells)
    path = task.new_file(f"w{partition}")
    file = write_slices(task.data, path, [cells], epoch=task.batch, words=cells.sets.shape[1])
    return WindowResult(file.path, close.aggregate.id, len(cells), file.bytes)
