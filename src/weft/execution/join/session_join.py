"""The probe stage of session joins: when a session closes, its combinations become results, query by query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from weft.execution.aggregate.accumulate import accumulate, check_rows, rows_in
from weft.execution.aggregate.close_windows import WindowLimits
from weft.execution.aggregate.open_sessions import is_asked
from weft.execution.aggregate.over_joins import member_columns
from weft.execution.aggregate.rewrite_sessions import OpenParts
from weft.execution.items import TagReport
from weft.execution.join.partition_range import PartitionRange, key_values, meaning_of
from weft.execution.join.probe_step import StepConditions
from weft.execution.join.row_references import RowParts, by_part
from weft.execution.program import BatchTask, Program, SessionClose, SessionGather
from weft.execution.selection.computed import TaggedRows
from weft.kernels import large_text as wide
from weft.kernels.aggregate.cells import LAST, compact, concat_cells, group_rows, only_groups
from weft.kernels.aggregate.factored import equal_pairs
from weft.kernels.aggregate.session_index import concat_ranges, ending_spans, surely_open_after
from weft.kernels.aggregate.sessions import JoinedSessions, join_sessions
from weft.kernels.aggregate.sort_codes import distinct
from weft.kernels.bitset import resized, rows_with_slot, set_to_words
from weft.kernels.join.merge_join import JoinSide
from weft.plan.slots import Slots
from weft.plan.strategy import Place
from weft.storage.bucket import TIME, Bucket, PartView
from weft.storage.combinations import Combinations, Member
from weft.storage.result_files import PartRef, WindowResult, write_session_rows
from weft.storage.slices import write_slices

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class ClosedJoin:
    """Result files of closed sessions, buckets with rows of open sessions (and which rows these are), and queries
    that failed on their own conditions."""

    results: list[WindowResult] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    parts: OpenParts = field(default_factory=OpenParts)
    failures: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of one side in a partition with query-sets, hashes and, where hashes do not suffice, keys."""

    member: Member
    sets: Array
    hashes: Array
    keys: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A part of a bucket in the order of the join key; `mask` has the slots that its query-sets still mean."""

    bucket: Bucket
    number: int
    side: JoinSide
    view: PartView
    mask: Slots


def close_session_join(
    program: Program,
    task: BatchTask,
    mine: PartitionRange,
    each: SessionClose,
    *,
    buckets: Sequence[Bucket],
    limits: WindowLimits,
) -> ClosedJoin:
    """Return the combinations, or their aggregates, of the sessions that close now, and which rows are still needed."""
    places = {store for store, _ in each.join.places}
    if limits.upto is None or limits.after == limits.upto:
        unread = {bucket.path for bucket in buckets if bucket.store in places}
        return ClosedJoin(open=unread, parts=OpenParts(whole=set(unread)))
    return _Closing(program, task, each, limits).run(mine, buckets)


class _Closing:
    """The closing of one session join's sessions in one partition."""

    def __init__(self, program: Program, task: BatchTask, session_close: SessionClose, limits: WindowLimits) -> None:
        self._program, self._task, self._each, self._limits = program, task, session_close, limits
        self._parts = RowParts(task.data)
        self._conditions = StepConditions(self._parts)
        self._closed = ClosedJoin()
        self._rows: list[dict[str, Array]] = []

    def run(self, own_range: PartitionRange, buckets: Sequence[Bucket]) -> ClosedJoin:
        """Load the rows of all sides that may be in closing sessions, and close the sessions of each query."""
        stored = [list(self._parts_of(own_range, buckets, place)) for place in self._each.join.places]
        hashes = self._due([part for side in stored for part in side])
        places = zip(self._each.join.places, stored, strict=True)
        sides = [self._load(place, parts, hashes) for place, parts in places]
        keys = _key_numbers(sides)
        still_open = [np.zeros(len(side), np.bool_) for side in sides]
        for query in self._each.queries:
            self._end(query, sides, keys, still_open)
        for side, flags in zip(sides, still_open, strict=True):
            self._note_open(side.member, np.flatnonzero(flags))
        if self._rows:
            self._closed.results.append(self._write())
        self._closed.failures |= self._conditions.failures
        return self._closed

    def _note_open(self, member: Member, rows: Array) -> None:
        """Note the rows of a side that are in open sessions."""
        for number, positions in by_part(member.part[rows]):
            ref = self._parts.refs[number]
            self._closed.open.add(ref.path)
            count = self._parts.view(number).rows.num_rows
            self._closed.parts.note(ref.path, ref.part, count, member.row[rows[positions]])

    def _parts_of(self, own_range: PartitionRange, buckets: Sequence[Bucket], place: Place) -> Iterator[_Part]:
        """Yield the parts of a side that hold rows of live queries."""
        program, slots = self._program, self._each.join.slots
        store = program.stores[place[0]]
        for bucket in (bucket for bucket in buckets if bucket.store == place[0]):
            mask = Slots(slots & meaning_of(self._task, program, bucket))
            for number, part in own_range.parts(bucket):
                if part.slots & mask:
                    side, view = own_range.side(bucket, number, store, place[1]), own_range.view(bucket, number)
                    yield _Part(bucket, number, side, view, mask)

    def _due(self, parts: Sequence[_Part]) -> Array:
        """Return the hashes of keys that may have a closing session, or rows in files that may be done; note other
        files as open."""
        assert self._limits.upto is not None
        queries, upto = [query.sessions for query in self._each.queries], self._limits.upto
        spans, newest_done = (
            ending_spans(queries, after=self._limits.after, upto=upto),
            surely_open_after(queries, upto),
        )
        wanted = [np.empty(0, np.uint64)]
        for part in parts:
            stored = part.bucket.parts[part.number]
            if stored.max_time <= newest_done and is_asked(self._task.batch, part.bucket, stored.rows):
                wanted.append(part.side.h)
                continue
            self._closed.open.add(part.bucket.path)
            self._closed.parts.whole.add(part.bucket.path)
            times = part.side.t if part.side.rows is None else part.side.t[part.side.rows]
            ending = np.zeros(len(times), np.bool_)
            for after, last in spans:
                if stored.min_time <= last:
                    ending |= (times <= last) if after is None else (times <= last) & (times > after)
            wanted.append(part.side.h[ending])
        return distinct(np.concatenate(wanted))

    def _load(self, place: Place, parts: Sequence[_Part], hashes: Array) -> _Rows:
        """Load the rows of one side whose keys have one of the hashes."""
        program, pieces = self._program, []
        for part in parts:
            side, view = part.side, part.view
            begins, ends = (np.searchsorted(side.h, hashes, side=edge) for edge in ("left", "right"))
            at = concat_ranges(begins, ends)
            rows = at if side.rows is None else np.asarray(side.rows)[at]
            sets = resized(view.sets[rows], program.words) & set_to_words(part.mask, program.words)
            kept = np.flatnonzero(sets.any(axis=1))
            rows = rows[kept]
            keys = [column.take(pa.array(rows)) for column in key_values(program.stores[place[0]], place[1], view)]
            number = self._parts.number(PartRef(part.bucket.path, part.number))
            member = Member(np.full(len(rows), number, np.int32), rows.astype(np.int32), view.times[rows])
            pieces.append((member, sets[kept], side.h[at[kept]], keys))
        if not pieces:
            none = np.empty(0, np.int64)
            return _Rows(Member(none, none, none), np.empty((0, program.words), np.uint64), none.astype(np.uint64), ())
        members, sets_, hashes_, keys_ = zip(*pieces, strict=True)
        return _Rows(
            Member(*(np.concatenate([getattr(member, name) for member in members]) for name in Member.__slots__)),
            np.concatenate(sets_),
            np.concatenate(hashes_),
            tuple(wide.concat_columns(column) for column in zip(*keys_, strict=True)),
        )

    def _end(
        self, query: SessionGather, sides: Sequence[_Rows], keys: Sequence[Array], still_open: Sequence[Array]
    ) -> None:
        """Number the sessions of a query, note the open ones, and gather the combinations of those that close."""
        assert self._limits.upto is not None
        rows_by_side = [np.flatnonzero(rows_with_slot(side.sets, query.slot)) for side in sides]
        times = [side.member.time[rows] for side, rows in zip(sides, rows_by_side, strict=True)]
        numbers = [key[rows].astype(np.int64) for key, rows in zip(keys, rows_by_side, strict=True)]
        sessions = join_sessions(numbers, times, times, query.sessions)
        over, ended = query.sessions.ended(sessions, after=self._limits.after, upto=self._limits.upto)
        sessions = replace(sessions, ends=query.sessions.last_times(sessions))
        bit = set_to_words(1 << query.slot, self._program.words)
        pools = []
        for side, rows, session, flags in zip(sides, rows_by_side, sessions.numbers, still_open, strict=True):
            flags[rows[~over[session]]] = True
            done = ended[session]
            member = side.member.take(rows[done])
            pools.append(Combinations((member,), np.tile(bit, (len(member.row), 1)), session[done]))
        lists = [combinations for combinations in self._gather(query, pools[0], pools[1:]) if len(combinations)]
        if not lists:
            return
        if query.slices is not None:
            self._aggregate(query, lists, sessions)
        else:
            self._rows += [self._columns(query, combinations, sessions) for combinations in lists]

    def _gather(
        self, query: SessionGather, combinations: Combinations, pools: Sequence[Combinations]
    ) -> Iterator[Combinations]:
        """Yield combinations of rows of one session each, adding one member at a time; `hashes` are session numbers."""
        member_count = len(combinations.members)
        for _, condition in (entry for entry in query.conditions if entry[0] == member_count):
            combinations = self._conditions.true_for(combinations, query.inputs, query.slot, condition)
        if not pools:
            yield combinations
            return
        assert combinations.hashes is not None and pools[0].hashes is not None
        for left, right in equal_pairs(combinations.hashes, pools[0].hashes):
            known, added = combinations.take(left), pools[0].take(right)
            together = Combinations((*known.members, *added.members), known.sets, known.hashes)
            yield from self._gather(query, together, pools[1:])

    def _columns(self, query: SessionGather, combinations: Combinations, sessions: JoinedSessions) -> dict[str, Array]:
        columns: dict[str, Array] = {"slot": np.full(len(combinations), query.slot)}
        for at, member in enumerate(combinations.members):
            columns |= {f"p{at}": member.part, f"r{at}": member.row}
        return columns | {"first": sessions.begins[combinations.hashes], "last": sessions.ends[combinations.hashes]}

    def _write(self) -> WindowResult:
        columns = {name: np.concatenate([rows[name] for rows in self._rows]) for name in self._rows[0]}
        names = [f"p{at}" for at in range(len(self._each.join.places))]
        used, numbers = np.unique(np.concatenate([columns[name] for name in names]), return_inverse=True)
        columns |= dict(zip(names, np.split(numbers.reshape(-1), len(names)), strict=True))
        file = write_session_rows(self._task.data, self._task.new_file("s"), columns)
        refs = tuple(self._parts.refs[number] for number in used)
        return WindowResult(file.path, self._each.join.id, len(columns["slot"]), file.bytes, refs)

    def _aggregate(self, query: SessionGather, lists: Sequence[Combinations], sessions: JoinedSessions) -> None:
        """Write the cells of whole sessions; sessions that begin and end together are one window."""
        assert query.slices is not None
        spans = np.stack([sessions.begins, sessions.ends], axis=1)
        windows, window = np.unique(spans, axis=0, return_inverse=True)
        report, accumulated = TagReport(query.slices.store.side.stream), []
        for combinations in lists:
            times = window.reshape(-1)[combinations.hashes].astype(np.int64)
            for piece, values in member_columns(query.slices, query.inputs, combinations, self._parts):
                columns = {TIME: pa.array(times[piece])} | values
                batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
                tagged = TaggedRows(self._program, self._task, report, batch, times[piece], combinations.sets[piece])
                added = accumulate(tagged, query.slices)
                accumulated += [] if added is None else [added[0]]
        self._closed.failures |= report.failures
        if accumulated:
            cells = compact(concat_cells(accumulated)) if len(accumulated) > 1 else accumulated[0]
            cells = only_groups(cells)
            check_rows((cells,), rows_in(accumulated), f"session join {query.source}")
            first, last = windows[cells.slices].T
            cells = replace(cells, slices=first.copy(), lanes={**cells.lanes, LAST: last.copy()})
            path, words = self._task.new_file("s"), cells.sets.shape[1]
            file = write_slices(self._task.data, path, [cells], epoch=self._task.batch, words=words)
            self._closed.results.append(WindowResult(file.path, query.source, len(cells), file.bytes))


def _key_numbers(sides: Sequence[_Rows]) -> list[Array]:
    """Return a number for each row's key, equal on all sides where keys are equal."""
    cuts = np.cumsum([len(side) for side in sides])[:-1]
    filled = [side for side in sides if len(side)]
    if len(filled) > 1 and filled[0].keys:
        columns = [wide.concat_columns(parts) for parts in zip(*(side.keys for side in filled), strict=True)]
        numbers, _ = group_rows(columns, sum(len(side) for side in sides))
    else:
        numbers = np.unique(np.concatenate([side.hashes for side in sides]), return_inverse=True)[1]
    return np.split(numbers, cuts)
