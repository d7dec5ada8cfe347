"""The schedules find mistakes: each of these engines is wrong in one small way, and is found out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.generators.features import Features
from tests.support.generators.workload import Batch, Create, Schedule, Sizes, draw_schedule
from tests.support.harness_api import Inputs, Row
from tests.support.oracles.matches import Arrived
from tests.support.oracles.reference import Reference, Running, reference_for
from tests.support.run import Mismatch, play
from tests.support.shrink import describe, shrink
from tests.support.spec import Key, QuerySpec, Sliding
from weft.plan.stream import Stream

SCHEDULES = 150
SIZES = Sizes(rows=50, crowds=0.0, features=Features(aggregations=False))


class LateByOneTick(Reference):
    """Drops the row that is exactly at the watermark."""

    def _is_late(self, stream: Stream, time: int) -> bool:
        return super()._is_late(stream, time - 1)


class NeverLate(Reference):
    """Keeps late rows."""

    def _is_late(self, stream: Stream, time: int) -> bool:
        return False


class EarlyStart(Reference):
    """Starts a query at the largest time seen, not one tick after it."""

    def _start(self, query: QuerySpec) -> int | None:
        start = super()._start(query)
        return None if start is None else start - 1


class StartOfOneStream(Reference):
    """Looks at one of the query's streams only."""

    def _start(self, query: QuerySpec) -> int | None:
        top = self._top.get(query.relations[0].stream)
        return None if top is None else top + 1


class EarlyWindows(Reference):
    """Reports windows that begin before the query's start."""

    def _windows(self, window: Sliding, pair: tuple[Arrived, ...], start: int | None) -> Iterator[int]:
        return super()._windows(window, pair, None)


class ClosedWindows(Reference):
    """Takes the end of a sliding window as part of it."""

    def _windows(self, window: Sliding, pair: tuple[Arrived, ...], start: int | None) -> Iterator[int]:
        yield from super()._windows(window, pair, start)
        latest = max(arrived.time for arrived in pair)
        edge = latest - window.size
        if edge % window.slide == 0 and min(arrived.time for arrived in pair) >= edge >= (
            edge if start is None else start
        ):
            yield edge


class TruncatedWindows(Reference):
    """Rounds towards zero, so windows before the epoch are wrong."""

    def _windows(self, window: Sliding, pair: tuple[Arrived, ...], start: int | None) -> Iterator[int]:
        for begin in super()._windows(window, pair, start):
            yield begin if begin >= 0 else begin + window.slide


class ClosedRanges(Reference):
    """Takes pairs exactly a range apart."""

    def _close(self, query: QuerySpec, pair: tuple[Arrived, ...]) -> bool:
        first, second = pair
        nearer = 1 if first.time < second.time else -1
        closer = Arrived(first.stream, first.time + nearer, first.values)
        return super()._close(query, pair) or super()._close(query, (closer, second))


class NullKeysMatch(Reference):
    """Joins NULL with NULL."""

    def _keys_match(self, keys: Sequence[Key], pair: tuple[Arrived, ...]) -> bool:
        return super()._keys_match(keys, pair) or all(
            pair[0].values.get(getattr(key.left, "name", "")) is None
            and pair[1].values.get(getattr(key.right, "name", "")) is None
            for key in keys
        )


class FirstKeyOnly(Reference):
    """Forgets the second key column."""

    def _keys_match(self, keys: Sequence[Key], pair: tuple[Arrived, ...]) -> bool:
        return super()._keys_match(keys[:1], pair)


class NotWithItself(Reference):
    """In a self-join a row does not meet itself."""

    def _emit(self, running: Running, pair: tuple[Arrived, ...]) -> None:
        if len(pair) == 1 or pair[0] is not pair[1]:
            super()._emit(running, pair)


class OnlyAcrossBatches(Reference):
    """Forgets rows of the query's past when a batch begins."""

    def batch(self, inputs: Inputs) -> None:
        for running in self._live.values():
            running.kept[0].clear()
        super().batch(inputs)


class LostInput(Reference):
    """Believes that a batch that died before its commit was committed."""

    def crash_during(self, inputs: Inputs, point: str) -> None:
        super().crash_during(inputs, point)
        if point == "before_commit":
            self._boundary()
            self._batches += 1


class TwiceAfterCommit(Reference):
    """Forgets that the batch was committed, so that it is run again."""

    def crash_during(self, inputs: Inputs, point: str) -> None:
        super().crash_during(inputs, point)
        if point == "after_commit":
            self._batches -= 1


class UncommittedRowsShow(Reference):
    """Shows rows of a batch that died, and emits them again."""

    def crash_during(self, inputs: Inputs, point: str) -> None:
        batches, top = self._batches, dict(self._top)
        super().crash_during(inputs, "after_commit")
        self._batches, self._top = batches, top


class OldNamesakesShow(Reference):
    """Mixes the rows of queries that have had the same name."""

    def _boundary(self) -> None:
        old: dict[str, list[Row]] = {name: self._newest[name].emitted for name in self._created if name in self._newest}
        super()._boundary()
        for name, rows in old.items():
            self._newest[name].emitted += rows


class LateDrop(Reference):
    """Drops a query one batch too late."""

    def _boundary(self) -> None:
        lingering = {f"{name} lingers": self._live[name] for name in self._dropped if name in self._live}
        super()._boundary()
        self._live = {name: running for name, running in self._live.items() if not name.endswith(" lingers")}
        self._live |= lingering


ENGINES = (
    LateByOneTick, NeverLate, EarlyStart, StartOfOneStream, EarlyWindows, ClosedWindows, TruncatedWindows, ClosedRanges,
    NullKeysMatch, FirstKeyOnly, NotWithItself, OnlyAcrossBatches, LostInput, TwiceAfterCommit, UncommittedRowsShow,
    OldNamesakesShow, LateDrop,
)  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_mistake_is_found(engine: type[Reference], tmp_path: Path) -> None:
    seed = next((seed for seed in range(SCHEDULES) if fails(draw_schedule(seed, SIZES), engine, tmp_path)), None)
    assert seed is not None, f"{SCHEDULES} schedules did not find {engine.__doc__}"


def test_failing_schedule_becomes_small(tmp_path: Path) -> None:
    seed = next(seed for seed in range(SCHEDULES) if fails(draw_schedule(seed, SIZES), NotWithItself, tmp_path))
    smallest = shrink(draw_schedule(seed, SIZES), lambda schedule: fails(schedule, NotWithItself, tmp_path), seconds=20)
    queries = [query for step in smallest.steps if isinstance(step, Create) for query in step.queries]
    batches = [step for step in smallest.steps if isinstance(step, Batch)]
    rows = [row for batch in batches for pieces in batch.input.values() for piece in pieces for row in piece]
    assert (len(queries), len(batches), len(rows)) == (1, 1, 1), describe(smallest)


def fails(schedule: Schedule, engine: type[Reference], path: Path) -> bool:
    try:
        play(schedule, reference_for(schedule, engine), path)
    except Mismatch:
        return True
    return False
