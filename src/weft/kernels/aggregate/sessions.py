"""Sessions: runs of rows that are closer than a gap, numbered, and merged into cells when they end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numba as nb
import numpy as np

from weft.kernels.aggregate.cells import LAST, Cells, reduce_lanes
from weft.kernels.aggregate.close_windows import one_bit_sets
from weft.kernels.aggregate.sort_codes import Flags, Longs
from weft.kernels.bitset import column_of
from weft.kernels.join.merge_join import minus
from weft.plan.time import TIME_MAX, TIME_MIN


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A query's sessions: rows closer than `gap` microseconds belong together, unless a multiple of `cut` is between
    them."""

    slot: int
    gap: int
    cut: int | None = None

    @property
    def cuts(self) -> Longs:
        """The cut as an array, empty if there is none."""
        return np.array([] if self.cut is None else [self.cut], np.int64)

    def over(self, first: Longs, last: Longs, upto: int) -> Flags:
        """Which sessions with these first and last times have ended by a time."""
        ended: Flags = last <= upto - self.gap
        return ended if self.cut is None else ended | (first // self.cut < upto // self.cut)

    def last_times(self, sessions: JoinedSessions) -> Longs:
        """The last times of sessions, moved so that those which are cut end there: windows with the same first and last
        time are the same, whichever row was the last."""
        if self.cut is None:
            return sessions.ends
        begins, left = sessions.begins, self.cut - sessions.begins % self.cut - self.gap
        early, late = begins < TIME_MIN - np.minimum(left, 0), begins > TIME_MAX - np.maximum(left, 0)
        moved = np.where(early | late, 0, begins) + left
        return np.minimum(sessions.ends, np.where(early, TIME_MIN, np.where(late, TIME_MAX, moved)))

    def ended(self, sessions: JoinedSessions, *, after: int | None, upto: int) -> tuple[Flags, Flags]:
        """Which sessions are over, and which of them were not before."""
        over = self.over(sessions.begins, sessions.ends, upto)
        return over, over if after is None else over & ~self.over(sessions.begins, sessions.ends, after)


@nb.njit(cache=True, nogil=True)
def number_sessions(keys: Longs, first: Longs, last: Longs, gap: int, cuts: Longs) -> tuple[Longs, Longs, Longs]:
    """Sessions of runs sorted by (key, first): the number of each, and where each session begins and ends. No run goes
    over a multiple of one of the cuts, and no session does."""
    numbers = np.empty(len(keys), np.int64)
    begins, ends = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    count = 0
    for i in range(len(keys)):
        new = i == 0 or keys[i] != keys[i - 1] or minus(first[i], ends[count - 1]) >= gap
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
    """Sessions over several sides: the number of each run's session, by side, and where each begins and ends."""

    numbers: tuple[Longs, ...]
    begins: Longs
    ends: Longs


def join_sessions(
    keys: Sequence[Longs], first: Sequence[Longs], last: Sequence[Longs], query: SessionQuery
) -> JoinedSessions:
    """Number the sessions of keys over runs of several sides, each given by side, in any order."""
    key, begin, end = (np.concatenate(each) for each in (keys, first, last))
    order = np.lexsort((begin, key))
    numbers = np.empty(len(order), np.int64)
    numbers[order], begins, ends = number_sessions(key[order], begin[order], end[order], query.gap, query.cuts)
    sides = np.cumsum([len(each) for each in keys])[:-1]
    return JoinedSessions(tuple(np.split(numbers, sides)), begins, ends)


@dataclass(frozen=True, slots=True, eq=False)
class ClosedSessions:
    """The cells of sessions that end now, and which of the given cells are in sessions that are still open."""

    cells: tuple[Cells, ...]
    open: Flags


def close_sessions(cells: Cells, queries: Iterable[SessionQuery], *, after: int | None, upto: int) -> ClosedSessions:
    """Sessions whose end is in (after, upto]: a slice is the session's first time, lane `last` its last one."""
    closed, still_open = [], np.zeros(len(cells), np.bool_)
    for query in queries:
        mine = np.flatnonzero(column_of(cells.sets, query.slot)[cells.classes])
        if len(mine) == 0:
            continue
        group, last = cells.group[mine], cells.lanes[LAST][mine]
        sessions = join_sessions([group], [cells.slices[mine]], [last], query)
        over, ended = query.ended(sessions, after=after, upto=upto)
        numbers = sessions.numbers[0]
        still_open[mine[~over[numbers]]] = True
        if not ended.any():
            continue
        targets = np.where(ended, np.cumsum(ended) - 1, -1)
        count = int(ended.sum())
        lanes, details = reduce_lanes(cells, mine, targets[numbers], count)
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
