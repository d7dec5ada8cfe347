"""The schedules find mistakes in windows that wait: each of these engines is wrong in one small way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.property.test_power import fails
from tests.support.generators.features import Features
from tests.support.generators.workload import Sizes, draw_schedule
from tests.support.harness_api import Inputs, Row
from tests.support.oracles.matches import Arrived, Match, Member, grouped_rows
from tests.support.oracles.reference import Reference, Running
from tests.support.spec import QuerySpec, Sliding, relation_of

SCHEDULES = 200
SIZES = Sizes(rows=50, crowds=0.0, features=Features(aggregations=True))


class CountedTwice(Reference):
    """Counts a match at the very beginning of its window twice."""

    def _emit(self, running: Running, pair: tuple[Arrived, ...]) -> None:
        before = len(running.waiting)
        super()._emit(running, pair)
        latest = max(arrived.time for arrived in pair)
        running.waiting += [match for match in running.waiting[before:] if match.start == latest]


class ReportedEarly(Reference):
    """Reports a window one tick before the watermark is at its end."""

    def _watermark(self, query: QuerySpec, tops: Mapping[str, int]) -> int | None:
        watermark = super()._watermark(query, tops)
        return None if watermark is None else watermark + 1


class ReportedLate(Reference):
    """Reports a window one tick after the watermark is at its end."""

    def _watermark(self, query: QuerySpec, tops: Mapping[str, int]) -> int | None:
        watermark = super()._watermark(query, tops)
        return None if watermark is None else watermark - 1


class ReportedOneBatchLate(Reference):
    """Reports with the watermark of the batch before."""

    def _watermark(self, query: QuerySpec, tops: Mapping[str, int]) -> int | None:
        return super()._watermark(query, self._top)


class NoLateness(Reference):
    """Closes windows at the largest time seen, while rows that are not late can still come."""

    def _watermark(self, query: QuerySpec, tops: Mapping[str, int]) -> int | None:
        return min(tops[name] for name in query.streams) if query.streams <= tops.keys() else None


class WatermarkOfTheFasterStream(Reference):
    """Closes windows of a join before the slower stream has come so far."""

    def _watermark(self, query: QuerySpec, tops: Mapping[str, int]) -> int | None:
        marks = [super(WatermarkOfTheFasterStream, self)._watermark(_only(query, side), tops) for side in (0, -1)]
        known = [mark for mark in marks if mark is not None]
        return max(known) if len(known) == 2 else None


class LostStragglers(Reference):
    """Does not count rows that are behind the largest time seen but not late."""

    def _wants(self, running: Running, side: int, new: Arrived) -> bool:
        behind = running.query.grouping is not None and new.time < self._top.get(new.stream, new.time)
        return not behind and super()._wants(running, side, new)


class ReportedAgain(Reference):
    """Reports a window again in the next batch if its end is the watermark."""

    def _report(self, running: Running, watermark: int | None) -> None:
        super()._report(running, watermark)
        if running.watermark is not None:
            running.watermark -= 1


class WindowsBeforeTheStart(Reference):
    """Reports windows of which it has not seen the beginning."""

    def _windows(self, window: Sliding, pair: tuple[Arrived, ...], start: int | None) -> Iterator[int]:
        return super()._windows(window, pair, None)


class ClosedGaps(Reference):
    """Puts rows exactly a gap apart into one session."""

    def _sessions(self, tuples: Sequence[Member], gap: int) -> list[list[Member]]:
        return super()._sessions(tuples, gap + 1)


class SessionsOfArrival(Reference):
    """Adds a row to the newest session or begins another: sessions between which a row comes later do not merge."""

    def _sessions(self, tuples: Sequence[Member], gap: int) -> list[list[Member]]:
        sessions: list[list[Member]] = []
        for member in tuples:
            near = [one for one in sessions if any(abs(member[1].time - other.time) < gap for _, other in one)]
            if near:
                near[0].append(member)
            else:
                sessions.append([member])
        return sessions


class SessionsOfTheLeft(Reference):
    """Lets only tuples of the left side hold the sessions of a join together."""

    def _sessions(self, tuples: Sequence[Member], gap: int) -> list[list[Member]]:
        left = [member for member in tuples if member[0] == 0]
        return [
            session + [member for member in tuples if member[0] == 1 and _holds(session, member, gap)]
            for session in super()._sessions(left, gap)
        ]


class SessionsOutliveTheirEnd(Reference):
    """Forgets at a batch what sessions held before."""

    def batch(self, inputs: Inputs) -> None:
        for running in self._live.values():
            if running.query.session is not None:
                running.kept[0].clear()
                running.kept[1].clear()
        super().batch(inputs)


class NullGroupsLost(Reference):
    """Has no group for NULL."""

    def _rows(self, query: QuerySpec, closed: Sequence[Match]) -> list[Row]:
        if query.grouping is None:
            return super()._rows(query, closed)
        columns = [(relation_of(key), getattr(key, "name", "")) for key in query.grouping.keys]
        kept = [
            match
            for match in closed
            if all(match.tuples[relation].values.get(name, 0) is not None for relation, name in columns)
        ]
        return super()._rows(query, kept)


class HavingForgotten(Reference):
    """Does not filter groups."""

    def _rows(self, query: QuerySpec, closed: Sequence[Match]) -> list[Row]:
        if query.grouping is None:
            return super()._rows(query, closed)
        return grouped_rows(query, replace(query.grouping, having=None), closed)


class DuplicatesOnce(Reference):
    """Counts equal rows once."""

    def _rows(self, query: QuerySpec, closed: Sequence[Match]) -> list[Row]:
        distinct = {
            (match.start, match.end, *(repr(arrived.values) for arrived in match.tuples)): match for match in closed
        }
        return super()._rows(query, list(distinct.values()) if query.grouping is not None else closed)


def _only(query: QuerySpec, side: int) -> QuerySpec:
    return replace(query, relations=(query.relations[side],))


def _holds(session: Sequence[Member], member: Member, gap: int) -> bool:
    return session[0][1].time <= member[1].time < session[-1][1].time + gap


ENGINES = (
    CountedTwice, ReportedEarly, ReportedLate, ReportedOneBatchLate, NoLateness, WatermarkOfTheFasterStream,
    LostStragglers, ReportedAgain, WindowsBeforeTheStart, ClosedGaps, SessionsOfArrival,
    SessionsOfTheLeft, SessionsOutliveTheirEnd, NullGroupsLost, HavingForgotten, DuplicatesOnce,
)  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_mistake_is_found(engine: type[Reference], tmp_path: Path) -> None:
    seed = next((seed for seed in range(SCHEDULES) if fails(draw_schedule(seed, SIZES), engine, tmp_path)), None)
    assert seed is not None, f"{SCHEDULES} schedules did not find {engine.__doc__}"
