"""Rows of a stream that was idle: what others have passed meanwhile comes too late for queries over all of them.

Up to where it is passed is written with every batch (`Manifest.closed`), so that a row is decided by that, and not by
which files happen to be freed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.kernels.bitset import set_to_words
from weft.plan.changelog import LiveQuery
from weft.plan.idle_streams import Streams, gives_way, streams_of
from weft.plan.slots import NO_SLOTS, Slots
from weft.plan.strategy import EquiJoin
from weft.plan.time import TIME_MAX
from weft.plan.window import to_micros

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Passed:
    """What becomes of a stream's rows that are older than `closed[names]`, for the queries of some slots.

    Sessions and probe trees (`windows` is None) leave them out. A join of two relations keeps them for rows that come
    after (`later`). Windows of (size, slide) leave out those that are in none which is still open.
    """

    names: Streams
    slots: Slots
    windows: tuple[int, int] | None = None
    later: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class InTime:
    """Query-sets of rows without what they come too late for; what is to be kept for later only, None if nothing is;
    and which rows missed anything, None if none did."""

    sets: Array
    later: Array | None = None
    missed: Array | None = None


def passed_of(stream: str, queries: Iterable[LiveQuery]) -> tuple[Passed, ...]:
    """The rules for a stream's rows, those that are alike together."""
    found: dict[Passed, Slots] = {}
    for live in queries:
        query, names = live.query, streams_of(live.query)
        if stream not in names or len(names) < 2:
            continue
        if query.session is not None:
            rule = Passed(names, NO_SLOTS)
        elif query.aggregation is not None:
            assert query.sliding is not None, "windows of an aggregation end"
            rule = Passed(names, NO_SLOTS, (to_micros(query.sliding.size), to_micros(query.sliding.slide)))
        elif gives_way(live, stream):
            rule = Passed(names, NO_SLOTS, later=isinstance(live.strategy, EquiJoin))
        else:
            continue
        found[rule] = Slots(found.get(rule, NO_SLOTS) | 1 << live.slot)
    return tuple(Passed(rule.names, slots, rule.windows, rule.later) for rule, slots in found.items())


def in_time(times: Array, sets: Array, rules: Iterable[Passed], closed: Mapping[Streams, int]) -> InTime:
    """The rows' query-sets by these rules; `times` are not empty."""
    oldest, made = None, InTime(sets)
    for rule in rules:
        mark = closed.get(rule.names)
        if mark is None:
            continue
        oldest = int(times.min()) if oldest is None else oldest
        if oldest < mark:
            made = _apply(made, rule, times, mark)
    return made


def _apply(made: InTime, rule: Passed, times: Array, mark: int) -> InTime:
    bits = set_to_words(rule.slots, made.sets.shape[1])
    wanted = (made.sets & bits).any(axis=1)
    gone, missed = times < mark, times < mark
    if rule.windows is not None:
        size, slide = rule.windows
        since = times % slide
        # The last window that holds a time begins `since` before it; of all of them, the first ends the first.
        gone = _is_before(times, np.maximum(size - since, 1), mark)
        missed = _is_before(times, 1 + (size - since - 1) % slide, mark) & (since < size)
    gone, missed = gone & wanted, missed & wanted
    later = made.later
    if rule.later and gone.any():
        late = np.where(gone[:, None], made.sets & bits, np.uint64(0))
        later = late if later is None else later | late
    sets = np.where(gone[:, None], made.sets & ~bits, made.sets) if gone.any() else made.sets
    return InTime(sets, later, missed if made.missed is None else made.missed | missed)


def _is_before(times: Array, lengths: Array, mark: int) -> Array:
    """Whether times and lengths together come to the mark at most; a sum beyond the latest time does not."""
    fits = times <= TIME_MAX - lengths
    found: Array = fits & (np.where(fits, times, 0) + np.where(fits, lengths, 0) <= mark)
    return found
