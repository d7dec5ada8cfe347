"""Sessions (rows closer than a gap): number them, and merge their cells when they close."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numba as nb
import numpy as np

from weft.kernels.aggregate.cells import LAST, Cells, reduce_lanes
from weft.kernels.aggregate.close_windows import one_bit_sets
from weft.kernels.aggregate.sort_codes import Flags, Longs
from weft.kernels.bitset import rows_with_slot
from weft.kernels.join.merge_join import clamped_difference
from weft.plan.time import TIME_MAX, TIME_MIN


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """The sessions of a query: rows closer than `gap` microseconds with no multiple of `cut` between them."""

    slot: int
    gap: int
    cut: int | None = None

    @property
    def cuts(self) -> Longs:
        """The cut as an array, empty without a cut."""
        return np.array([] if self.cut is None else [self.cut], np.int64)

    def over(self, first: Longs, last: Longs, upto: int) -> Flags:
        """Return which sessions with these first and last times are closed by the time `upto`."""
        closed: Flags = last <= upto - self.gap
        return closed if self.cut is None else closed | (first // self.cut < upto // self.cut)

    def last_times(self, sessions: JoinedSessions) -> Longs:
        """Return the last times of sessions, moved back where the cut comes first, so that last time + gap is the end.

        Sessions with equal first and last times are then the same window, whichever row was the last.
        """
        if self.cut is None:
            return sessions.ends
        begins, to_limit = sessions.begins, self.cut - sessions.begins % self.cut - self.gap
        underflow, overflow = begins < TIME_MIN - np.minimum(to_limit, 0), begins > TIME_MAX - np.maximum(to_limit, 0)
        limit = np.where(underflow | overflow, 0, begins) + to_limit
        return np.minimum(sessions.ends, np.where(underflow, TIME_MIN, np.where(overflow, TIME_MAX, limit)))

    def ended(self, sessions: JoinedSessions, *, after: int | None, upto: int) -> tuple[Flags, Flags]:
        """Return which sessions are closed by `upto`, and which of them were still open at `after`."""
        over = self.over(sessions.begins, sessions.ends, upto)
        return over, over if after is None else over & ~self.over(sessions.begins, sessions.ends, after)


@nb.njit(cache=True, nogil=True)
def number_sessions(keys: Longs, first: Longs, last: Longs, gap: int, cuts: Longs) -> tuple[Longs, Longs, Longs]:
    """Number the sessions of runs sorted by (key, first); return each run's session, and where each begins and ends.

    No run and no session crosses a multiple of one of `cuts`.
    """
    numbers = np.empty(len(keys), np.int64)
    begins, ends = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    count = 0
    for i in range(len(keys)):
        new = i == 0 or keys[i] != keys[i - 1] or clamped_difference(first[i], ends[count - 1]) >= gap
        k = 0
        while not new and k < len(cuts):
            new = first[i] // cuts[k] != begins[count - 1] // cuts[k]
            k += 1
        if new:
            begins[count] = first[i]
            ends[count] = last[i]
            count += 1
        elif last[i] > ends[count - 1]:
            ends[count - 1] = last[i]
        numbers[i] = count - 1
    return numbers, begins[:count].copy(), ends[:count].copy()


@dataclass(frozen=True, slots=True, eq=False)
class JoinedSessions:
    """Sessions over several sides: the session number of each run, by side, and the begin and end of each session."""

    numbers: tuple[Longs, ...]
    begins: Longs
    ends: Longs


def join_sessions(
    keys: Sequence[Longs], first: Sequence[Longs], last: Sequence[Longs], query: SessionQuery
) -> JoinedSessions:
    """Number the sessions of the runs of several sides. Keys, first and last times are given by side, in any order."""
    key, begin, end = (np.concatenate(sides) for sides in (keys, first, last))
    order = np.lexsort((begin, key))
    numbers = np.empty(len(order), np.int64)
    numbers[order], begins, ends = number_sessions(key[order], begin[order], end[order], query.gap, query.cuts)
    cuts = np.cumsum([len(side_keys) for side_keys in keys])[:-1]
    return JoinedSessions(tuple(np.split(numbers, cuts)), begins, ends)


@dataclass(frozen=True, slots=True, eq=False)
class ClosedSessions:
    """The cells of sessions that close now, and which of the given cells are in sessions that are still open."""

    cells: tuple[Cells, ...]
    open: Flags


def close_sessions(cells: Cells, queries: Iterable[SessionQuery], *, after: int | None, upto: int) -> ClosedSessions:
    """Close sessions whose end is in (after, upto]; slices are their first times, lane `last` their last times."""
    closed, still_open = [], np.zeros(len(cells), np.bool_)
    for query in queries:
        rows = np.flatnonzero(rows_with_slot(cells.sets, query.slot)[cells.classes])
        if len(rows) == 0:
            continue
        group, last = cells.group[rows], cells.lanes[LAST][rows]
        sessions = join_sessions([group], [cells.slices[rows]], [last], query)
        over, ended = query.ended(sessions, after=after, upto=upto)
        numbers = sessions.numbers[0]
        still_open[rows[~over[numbers]]] = True
        if not ended.any():
            continue
        targets = np.where(ended, np.cumsum(ended) - 1, -1)
        count = int(ended.sum())
        lanes, details = reduce_lanes(cells, rows, targets[numbers], count)
        lanes = {**lanes, LAST: query.last_times(sessions)[ended]}
        groups = np.empty(len(ended), np.int64)
        groups[numbers] = group
        closed.append(
            replace(
                cells,
                sets=one_bit_sets((query.slot,), cells.sets.shape[1]),
                slices=sessions.begins[ended],
                classes=np.zeros(count, np.int64),
                group=groups[ended],
                lanes=lanes,
                details=details,
            )
        )
    return ClosedSessions(tuple(closed), still_open)
