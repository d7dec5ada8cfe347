"""Rows of a stream that was idle: rows that are too late for queries which did not wait for the stream.

Every batch records in `Manifest.closed` how far the windows of a set of streams are closed. Rows are judged by that
record, not by which files happen to be freed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.kernels.bitset import set_to_words
from weft.plan.changelog import LiveQuery
from weft.plan.idle_streams import Streams, frees_despite_idle, streams_of
from weft.plan.slots import NO_SLOTS, Slots
from weft.plan.strategy import EquiJoin
from weft.plan.time import TIME_MAX
from weft.plan.window import to_micros

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Passed:
    """A rule for rows of a stream that are older than `closed[names]`, for the queries in `slots`.

    Sessions and probe trees (`windows` is None) drop these rows. A join of two relations keeps them for rows that
    arrive later (`later`). An aggregation with windows of (size, slide) drops rows whose windows are all closed.
    """

    names: Streams
    slots: Slots
    windows: tuple[int, int] | None = None
    later: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class InTime:
    """Query-sets of rows without the queries that the rows are too late for.

    `later` has the query-sets to keep for later batches only, `missed` the rows that missed some query; each may be
    None.
    """

    sets: Array
    later: Array | None = None
    missed: Array | None = None


def passed_of(stream: str, queries: Iterable[LiveQuery]) -> tuple[Passed, ...]:
    """Return the rules for rows of a stream, one for all queries that are treated alike."""
    slots_by_rule: dict[Passed, Slots] = {}
    for live in queries:
        query, names = live.query, streams_of(live.query)
        if stream not in names or len(names) < 2:
            continue
        if query.session is not None:
            rule = Passed(names, NO_SLOTS)
        elif query.aggregation is not None:
            assert query.sliding is not None, "windows of an aggregation end"
            rule = Passed(names, NO_SLOTS, (to_micros(query.sliding.size), to_micros(query.sliding.slide)))
        elif frees_despite_idle(live, stream):
            rule = Passed(names, NO_SLOTS, later=isinstance(live.strategy, EquiJoin))
        else:
            continue
        slots_by_rule[rule] = Slots(slots_by_rule.get(rule, NO_SLOTS) | 1 << live.slot)
    return tuple(Passed(rule.names, slots, rule.windows, rule.later) for rule, slots in slots_by_rule.items())


def in_time(times: Array, sets: Array, rules: Iterable[Passed], closed: Mapping[Streams, int]) -> InTime:
    """Apply the rules to the query-sets of rows; `times` must not be empty."""
    oldest, result = None, InTime(sets)
    for rule in rules:
        closed_until = closed.get(rule.names)
        if closed_until is None:
            continue
        oldest = int(times.min()) if oldest is None else oldest
        if oldest < closed_until:
            result = _apply(result, rule, times, closed_until)
    return result


def _apply(before: InTime, rule: Passed, times: Array, closed_until: int) -> InTime:
    bits = set_to_words(rule.slots, before.sets.shape[1])
    wanted = (before.sets & bits).any(axis=1)
    gone, missed = times < closed_until, times < closed_until
    if rule.windows is not None:
        size, slide = rule.windows
        since = times % slide
        # The last window that holds a time begins `since` before it; the first one closes first.
        gone = _is_before(times, np.maximum(size - since, 1), closed_until)
        missed = _is_before(times, 1 + (size - since - 1) % slide, closed_until) & (since < size)
    gone, missed = gone & wanted, missed & wanted
    later = before.later
    if rule.later and gone.any():
        late_sets = np.where(gone[:, None], before.sets & bits, np.uint64(0))
        later = late_sets if later is None else later | late_sets
    sets = np.where(gone[:, None], before.sets & ~bits, before.sets) if gone.any() else before.sets
    return InTime(sets, later, missed if before.missed is None else before.missed | missed)


def _is_before(times: Array, lengths: Array, closed_until: int) -> Array:
    """Return where time plus length is at most `closed_until`; a sum beyond the latest time never is."""
    fits = times <= TIME_MAX - lengths
    is_before: Array = fits & (np.where(fits, times, 0) + np.where(fits, lengths, 0) <= closed_until)
    return is_before
