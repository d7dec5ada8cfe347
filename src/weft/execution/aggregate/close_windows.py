"""The probe stage for aggregation: windows that the watermark has passed are merged from slices and written.

Every partition knows the batch's newest event times, so windows end in the very batch that moves the watermark.
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
from weft.kernels.aggregate.cells import LAST, Cells, concat, only_groups, reduce_lanes
from weft.kernels.aggregate.close_windows import (
    Closing,
    WindowMerger,
    closing_wholes,
    closing_windows,
    in_closing_order,
    one_bit_sets,
)
from weft.kernels.aggregate.factored import PairPlan, Side, Windows, link_groups, pair_cells
from weft.kernels.aggregate.sessions import SessionQuery, close_sessions, join_sessions
from weft.kernels.aggregate.sort_codes import Flags, Longs
from weft.kernels.bitset import column_of
from weft.plan.identity import identity
from weft.plan.key import StoreId
from weft.plan.window import to_micros
from weft.storage.bucket import Bucket
from weft.storage.result_files import WindowResult
from weft.storage.slices import write_slices

_WRITTEN_AT_ONCE = 1 << 24
"""Values: a hundred megabytes or two."""


@dataclass(slots=True)
class Closed:
    """Result files of windows that ended, and the session buckets whose sessions have not all ended: which, and what of
    them."""

    results: list[WindowResult] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    parts: OpenParts = field(default_factory=OpenParts)

    def stay(self, paths: Iterable[str]) -> None:
        """Note buckets that were not looked through."""
        self.open.update(paths)
        self.parts.whole.update(paths)


@dataclass(frozen=True, slots=True)
class Limits:
    """Windows with after < end <= upto end now; `upto` is None while nothing can end."""

    after: int | None
    upto: int | None


def window_limits(program: Program, task: BatchTask, newest: Mapping[str, int]) -> dict[tuple[str, ...], Limits]:
    """Which windows end in this batch, per set of streams."""
    streams = {name: tag.stream for name, tag in program.streams.items()}
    watermarks = advance(streams, task.watermarks, newest)
    lateness = {name: to_micros(stream.lateness) for name, stream in streams.items()}
    idle, found = task.idle - newest.keys(), {}
    for names in program.window_streams():
        before = task.closed.get(names)
        found[names] = Limits(before, closed_until(names, watermarks, idle=idle, before=before, lateness=lateness))
    return found


class SliceReader:
    """Cells of a partition by store, read once per task."""

    def __init__(self, program: Program, task: BatchTask, partition: int, buckets: Sequence[Bucket]) -> None:
        self._program, self._task, self._partition = program, task, partition
        self._buckets = buckets
        self.sessions = SessionCells(program, task, partition, buckets)
        self._mergers: dict[StoreId, WindowMerger | None] = {}

    def merger(self, store: StoreId) -> WindowMerger | None:
        """What closes windows of a store; None if it has no cells. One for all aggregates that use it."""
        if store not in self._mergers:
            wanted = {identity(part): slots for part, slots in self._program.slices[store].users.items()}
            parts = self._cells(store)
            self._mergers[store] = WindowMerger(parts, wanted) if parts else None
        return self._mergers[store]

    def _cells(self, store: StoreId) -> list[Cells]:
        """The cells of a store, by part of a bucket."""
        side = self._program.slices[store].store.side
        buckets = [bucket for bucket in self._buckets if bucket.store == store]
        return load_cells(self._program, self._task, self._partition, buckets=buckets, side=side)


def close_windows(
    program: Program,
    task: BatchTask,
    partition: int,
    *,
    buckets: Sequence[Bucket],
    limits: Mapping[tuple[str, ...], Limits],
    combined: bool = False,
) -> Closed:
    """End the windows of all aggregating queries in one partition: of those over combinations, or of all others."""
    closed = Closed()
    reader = SliceReader(program, task, partition, buckets)
    for each in (each for each in program.aggregates if each.combined == combined):
        now = limits[each.aggregate.streams]
        sessions = [store for store in each.aggregate.stores if program.slices[store].store.side.session]
        if now.upto is None or now.after == now.upto:
            closed.stay({bucket.path for bucket in buckets if bucket.store in sessions})
            continue
        for made in _pieces(_close(each, reader, now, closed)):
            closed.results.append(_write(each, task, partition, made))
    return closed


def _pieces(every: Iterable[Cells]) -> Iterator[list[Cells]]:
    """Cells that go into one file together: a batch may end more windows than fit into memory."""
    made: list[Cells] = []
    values = 0
    for cells in every:
        if len(cells):
            made.append(cells)
            values += len(cells) * (len(cells.lanes) + 1) + sum(len(each.codes) for each in cells.details.values())
        if values > _WRITTEN_AT_ONCE:
            yield made
            made, values = [], 0
    if made:
        yield made


def _close(each: AggregateClose, reader: SliceReader, limits: Limits, closed: Closed) -> Iterator[Cells]:
    assert limits.upto is not None
    stores = each.aggregate.stores
    if each.sliding and _may_close(each, limits):
        mergers = [reader.merger(store) for store in stores]
        begins = [merger.slices() for merger in mergers if merger is not None]
        if len(begins) == len(stores):
            closing = closing_wholes if each.combined else closing_windows
            closings = closing(np.concatenate(begins), each.sliding, after=limits.after, upto=limits.upto)
            ready = [merger for merger in mergers if merger is not None]
            if len(ready) == 1:
                yield from (cells for window in in_closing_order(closings) for cells in ready[0].close(window))
            else:
                yield from _close_pairs(ready, closings, each.pairs)
    if each.sessions:
        due = reader.sessions.due(stores, each.sessions, after=limits.after, upto=limits.upto)
        closed.stay(due.open)
        if len(stores) == 1:
            yield from _close_sessions(due.sides[0], each.sessions, limits, closed)
        else:
            yield from _close_session_pairs(due.sides, each, limits, closed)


def _may_close(each: AggregateClose, limits: Limits) -> bool:
    """Whether any window at all ends in these limits: if not, nothing need be read."""
    if limits.after is None or limits.upto is None:
        return True
    shapes = {(query.size, query.slide) for query in each.sliding}
    return any((limits.upto - size) // slide > (limits.after - size) // slide for size, slide in shapes)


def _close_pairs(
    mergers: Sequence[WindowMerger], closings: Sequence[Closing], plans: Mapping[int, PairPlan]
) -> Iterator[Cells]:
    """Both sides of each window closed for themselves, then multiplied key by key for each query."""
    left, right = (merger.groups for merger in mergers)
    *links, count = link_groups(left, right, _join_keys(left, next(iter(plans.values())), 0))
    for closing in in_closing_order(closings):
        sides = [list(merger.close(closing)) for merger in mergers]
        for slot in closing.slots:
            first, second = (_of_slot(side, slot) for side in sides)
            if first is None or second is None:
                continue
            pair = (Side(first, links[0][first.group]), Side(second, links[1][second.group]))
            made = pair_cells(*pair, plans[slot], Windows(np.full(count, closing.start)))
            if made is not None:
                yield replace(made, sets=one_bit_sets((slot,), left.sets.shape[1]))


def _join_keys(cells: Cells, plan: PairPlan, side: int) -> int:
    """How many of a side's group columns are join keys: all that are not GROUP BY keys."""
    return len(cells.groups) - sum(1 for at, _ in plan.keys if at == side)


def _of_slot(parts: Sequence[Cells], slot: int) -> Cells | None:
    chosen = []
    for part in parts:
        rows = np.flatnonzero(column_of(part.sets, slot)[part.classes])
        if len(rows):
            chosen.append(part.take(rows))
    return concat(chosen) if chosen else None


def _close_sessions(
    parts: Sequence[Chosen], queries: Sequence[SessionQuery], limits: Limits, closed: Closed
) -> Iterator[Cells]:
    if not parts:
        return
    assert limits.upto is not None
    found = close_sessions(concat([part.cells for part in parts]), queries, after=limits.after, upto=limits.upto)
    _note_open(parts, found.open, closed)
    yield from found.cells


def _note_open(parts: Sequence[Chosen], still_open: Flags, closed: Closed) -> None:
    start = 0
    for part in parts:
        flags = still_open[start : start + len(part.cells)]
        if flags.any():
            closed.open.add(part.bucket.path)
            closed.parts.note(part.bucket.path, part.number, part.count, part.rows[flags])
        start += len(part.cells)


def _close_session_pairs(
    parts: Sequence[Sequence[Chosen]], each: AggregateClose, limits: Limits, closed: Closed
) -> Iterator[Cells]:
    """Sessions of a join key go over the rows of both sides; those that end are multiplied side by side."""
    assert limits.upto is not None
    filled = [number for number, side in enumerate(parts) if side]
    if not filled:
        return
    sides = [concat([part.cells for part in parts[number]]) for number in filled]
    still_open = [np.zeros(len(side), np.bool_) for side in sides]
    keys = _join_keys(sides[0], next(iter(each.pairs.values())), filled[0])
    *links, _ = link_groups(sides[0], sides[-1], keys)
    for query in each.sessions:
        mine = [np.flatnonzero(column_of(cells.sets, query.slot)[cells.classes]) for cells in sides]
        sessions = join_sessions(
            [links[n][cells.group[rows]] for n, (cells, rows) in enumerate(zip(sides, mine, strict=True))],
            [cells.slices[rows] for cells, rows in zip(sides, mine, strict=True)],
            [cells.lanes[LAST][rows] for cells, rows in zip(sides, mine, strict=True)],
            query,
        )
        over, ended = query.ended(sessions, after=limits.after, upto=limits.upto)
        for flags, rows, session in zip(still_open, mine, sessions.numbers, strict=True):
            flags[rows[~over[session]]] = True
        if len(sides) < 2:  # nothing joins, but a session that goes on may still meet rows of the other side
            continue
        pair = [_session_side(sides[n], mine[n], sessions.numbers[n], ended) for n in (0, 1)]
        windows = Windows(sessions.begins, query.last_times(sessions))
        made = pair_cells(pair[0], pair[1], each.pairs[query.slot], windows)
        if made is not None:
            yield replace(made, sets=one_bit_sets((query.slot,), sides[0].sets.shape[1]))
    for number, flags in zip(filled, still_open, strict=True):
        _note_open(parts[number], flags, closed)


def _session_side(cells: Cells, rows: Longs, session: Longs, ended: Flags) -> Side:
    """Cells of ended sessions, merged by session and group."""
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
    return Side(merged, keys // groups)


def _write(each: AggregateClose, task: BatchTask, partition: int, made: Sequence[Cells]) -> WindowResult:
    cells = concat(made)
    cells = only_groups(cells)
    path = task.new_file(f"w{partition}")
    file = write_slices(task.data, path, [cells], epoch=task.batch, words=cells.sets.shape[1])
    return WindowResult(file.path, each.aggregate.id, len(cells), file.bytes)
