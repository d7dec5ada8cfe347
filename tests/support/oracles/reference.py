"""The contract read a second time: an engine in memory, batch by batch, with nested loops and nothing shared.

It is what the oracle is checked against, and it carries the mistakes (`test_power.py`) the schedules must find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from tests.support.generators.data import MICROSECOND, from_micros, to_micros
from tests.support.generators.workload import Create, Schedule
from tests.support.harness_api import CRASH_POINTS, Inputs, OpenHarness, Row
from tests.support.oracles.evaluate import compare, holds, value_of
from tests.support.oracles.matches import Arrived, Match, Member, grouped_rows, plain_row, session_matches
from tests.support.spec import Key, QuerySpec, Range, Session, Sliding, Unbounded
from tests.support.text import weft_sql
from weft.plan.stream import Stream


@dataclass(slots=True)
class Running:
    """A live query, what it has kept and what it has emitted; `waiting` are matches in windows yet to be reported."""

    query: QuerySpec
    start: int | None
    kept: tuple[list[Arrived], ...] = field(default_factory=lambda: ([], []))
    waiting: list[Match] = field(default_factory=list)
    watermark: int | None = None
    emitted: list[Row] = field(default_factory=list)


class Reference:
    """The `Harness` in plain Python; SQL texts are looked up among the specs given, never parsed."""

    def __init__(self, streams: Sequence[Stream], specs: Mapping[tuple[str, str], QuerySpec]) -> None:
        self._streams = {stream.name: stream for stream in streams}
        self._specs = specs
        self._top: dict[str, int] = {}
        self._created: dict[str, QuerySpec] = {}
        self._dropped: set[str] = set()
        self._live: dict[str, Running] = {}
        self._newest: dict[str, Running] = {}
        self._batches = 0
        self._crashed = False

    def create(self, sql: str, name: str) -> None:
        """Remember the request."""
        self.create_many([(sql, name)])

    def create_many(self, items: Sequence[tuple[str, str]]) -> None:
        """Remember the requests."""
        assert not self._crashed
        for sql, name in items:
            assert name not in self._live, f"query {name} is live"
            assert name not in self._created, f"query {name} is pending"
            self._created[name] = self._specs[sql, name]

    def drop(self, name: str) -> None:
        """Remember the request."""
        assert not self._crashed
        assert name in self._live or name in self._created, f"no query {name}"
        self._dropped.add(name)

    def batch(self, inputs: Inputs) -> None:
        """Boundary, then every stream's new tuples, then the watermarks and the windows they have passed."""
        assert not self._crashed
        self._boundary()
        tops = dict(self._top)
        for stream, pieces in inputs.items():
            for arrived in self._read(self._streams[stream], pieces, tops):
                for running in self._live.values():
                    self._arrive(running, arrived)
        for running in self._live.values():
            if running.query.waits:
                self._report(running, self._watermark(running.query, tops))
        self._top = tops
        self._batches += 1

    def crash_during(self, inputs: Inputs, point: str) -> None:
        """Before the commit nothing has happened, after it everything."""
        assert point in CRASH_POINTS
        if point == "after_commit":
            self.batch(inputs)
        self._crashed = True

    def reopen(self, partitions: int) -> None:
        """All is still there."""
        assert partitions >= 1
        self._crashed = False

    def committed_batches(self) -> int:
        """How many batches were run."""
        return self._batches

    def complete_from(self, name: str) -> datetime | None:
        """The start fixed at the boundary."""
        start = self._live[name].start
        return None if start is None else from_micros(start)

    def results(self, name: str) -> Sequence[Row]:
        """What the newest query of this name has emitted."""
        running = self._newest.get(name)
        return [] if running is None else list(running.emitted)

    def _boundary(self) -> None:
        for name, query in self._created.items():
            self._newest[name] = self._live[name] = Running(query, self._start(query))
        for name in self._dropped:
            del self._live[name]
        self._created.clear()
        self._dropped.clear()

    def _start(self, query: QuerySpec) -> int | None:
        seen = [self._top[stream] for stream in query.streams if stream in self._top]
        return max(seen) + 1 if seen else None

    def _read(self, stream: Stream, pieces: Sequence[pa.RecordBatch], tops: dict[str, int]) -> Iterator[Arrived]:
        for piece in pieces:
            for values in piece.to_pylist():
                instant = values[stream.time]
                if instant is None:
                    continue
                time = to_micros(instant)
                tops[stream.name] = max(tops.get(stream.name, time), time)
                if not self._is_late(stream, time):
                    yield Arrived(stream.name, time, values)

    def _is_late(self, stream: Stream, time: int) -> bool:
        top = self._top.get(stream.name)
        return top is not None and from_micros(time) < from_micros(top) - stream.lateness

    def _arrive(self, running: Running, new: Arrived) -> None:
        """Pair a tuple with all before it, in each role it can play; in a self-join also with itself."""
        relations = running.query.relations
        roles = [side for side in range(len(relations)) if self._wants(running, side, new)]
        if len(relations) == 1 and running.query.session is None:
            for _ in roles:
                self._emit(running, (new,))
            return
        for side in roles:
            running.kept[side].append(new)
        if running.query.session is not None:
            return
        if 0 in roles:
            for other in running.kept[1]:
                self._emit(running, (new, other))
        if 1 in roles:
            for other in running.kept[0]:
                if other is not new:
                    self._emit(running, (other, new))

    def _wants(self, running: Running, side: int, new: Arrived) -> bool:
        relation = running.query.relations[side]
        if new.stream != relation.stream or (running.start is not None and new.time < running.start):
            return False
        return relation.predicate is None or holds(relation.predicate, new.values) is True

    def _emit(self, running: Running, pair: tuple[Arrived, ...]) -> None:
        query = running.query
        if len(pair) == 2 and not (self._keys_match(query.keys, pair) and self._close(query, pair)):
            return
        window = query.sliding
        if window is None:
            running.emitted.append(plain_row(query, Match(0, 0, pair)))
            return
        matches = [Match(begin, begin + window.size, pair) for begin in self._windows(window, pair, running.start)]
        if query.grouping is not None:
            running.waiting += matches
        else:
            running.emitted += [plain_row(query, match) for match in matches]

    def _keys_match(self, keys: Sequence[Key], pair: tuple[Arrived, ...]) -> bool:
        return all(
            compare("=", value_of(key.left, pair[0].values), value_of(key.right, pair[1].values)) is True
            for key in keys
        )

    def _close(self, query: QuerySpec, pair: tuple[Arrived, ...]) -> bool:
        latest = max(pair[0].time, pair[1].time)
        for tuple_, relation in zip(pair, query.relations, strict=True):
            match relation.window:
                case Range(size=size):
                    if latest - tuple_.time >= size:
                        return False
                case Sliding() | Unbounded() | Session() | None:
                    pass
        distance, interval = pair[0].time - pair[1].time, query.interval
        if interval is None:
            return True
        above = interval.low is None or distance >= interval.low
        return above and (interval.high is None or distance <= interval.high)

    def _windows(self, window: Sliding, pair: tuple[Arrived, ...], start: int | None) -> Iterator[int]:
        """Starts of the windows that hold every tuple, walking back from the earliest tuple."""
        earliest, latest = min(tuple_.time for tuple_ in pair), max(tuple_.time for tuple_ in pair)
        begin = earliest - earliest % window.slide
        while latest < begin + window.size:
            if start is None or begin >= start:
                yield begin
            begin -= window.slide

    def _watermark(self, query: QuerySpec, tops: Mapping[str, int]) -> int | None:
        if not query.streams <= tops.keys():
            return None
        return min(tops[name] - self._streams[name].lateness // MICROSECOND for name in query.streams)

    def _report(self, running: Running, watermark: int | None) -> None:
        """Emit what is in the windows that end after the last watermark and not after this one."""
        if watermark is None:
            return
        query, last = running.query, running.watermark
        matches: Sequence[Match] = running.waiting
        if query.session is not None:
            matches = self._session_matches(running, query.session.gap)
        closed = [match for match in matches if match.end <= watermark and (last is None or match.end > last)]
        running.watermark = watermark
        running.emitted += self._rows(query, closed)

    def _session_matches(self, running: Running, gap: int) -> list[Match]:
        return list(session_matches(running.query, running.kept, gap, cut=self._sessions))

    def _rows(self, query: QuerySpec, closed: Sequence[Match]) -> list[Row]:
        if query.grouping is None:
            return [plain_row(query, match) for match in closed]
        return grouped_rows(query, query.grouping, closed)

    def _sessions(self, tuples: Sequence[Member], gap: int) -> list[list[Member]]:
        """The tuples of one key, cut wherever two neighbours are a gap apart."""
        sessions: list[list[Member]] = []
        for member in sorted(tuples, key=lambda member: member[1].time):
            if sessions and member[1].time - sessions[-1][-1][1].time < gap:
                sessions[-1].append(member)
            else:
                sessions.append([member])
        return sessions


def reference_for(schedule: Schedule, engine: type[Reference] = Reference) -> OpenHarness:
    """Opens references that know the queries of this schedule by name and text."""
    created = [query for step in schedule.steps if isinstance(step, Create) for query in step.queries]
    specs = {(weft_sql(query), query.name): query for query in created}

    def open_reference(path: Path, streams: Sequence[Stream], *, partitions: int) -> Reference:
        del path, partitions  # it lives in memory, in one piece
        return engine(streams, specs)

    return open_reference
