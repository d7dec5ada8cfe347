"""Streams that are idle and come back: queries over several streams, by marks and nested loops, in whole seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import cast
from unittest.mock import patch

from tests.support.by_seed import by_seed
from tests.support.engine_sample import EPOCH, open_core, rows, stream
from tests.support.harness import CoreHarness

LATENESS = {"a": 0, "b": 3, "c": 1}
TIMEOUT = 60
SIZE, SLIDE, GAP, RANGE = 8, 4, 3, 6
Result = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A row, the batch it came with, and up to where each set of streams was passed when that began."""

    stream: str
    time: int
    key: int
    value: int
    batch: int
    marks: dict[str, int]

    def is_passed(self, names: str) -> bool:
        return self.time < self.marks.get(names, self.time)


@dataclass(slots=True)
class World:
    """Watermarks, idleness and marks, from the contract."""

    newest: dict[str, int] = field(default_factory=dict)
    had_rows: dict[str, float] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    arrived: list[Arrived] = field(default_factory=list)
    batches: int = 0

    def take(self, now: float, given: dict[str, list[tuple[int, int, int]]]) -> None:
        idle = {each for each in LATENESS if now - self.had_rows.setdefault(each, now) > TIMEOUT} - given.keys()
        before = dict(self.newest)
        for name, values in given.items():
            for time, key, value in values:
                if name not in before or time >= before[name] - LATENESS[name]:
                    self.arrived.append(Arrived(name, time, key, value, self.batches, dict(self.marks)))
            self.newest[name] = max([time for time, _, _ in values] + [self.newest.get(name, -(10**9))])
            self.had_rows[name] = now
        for names in ("ab", "abc"):
            active = [each for each in names if each not in idle] or list(names)
            if all(each in self.newest for each in active):
                slowest = min(self.newest[each] for each in active)
                come = {each: self.newest[each] if each in active else slowest for each in names}
                mark = min(come[each] - LATENESS[each] for each in names)
                self.marks[names] = max(mark, self.marks.get(names, mark))
        self.batches += 1

    def combinations(self, names: str) -> Iterator[tuple[Arrived, ...]]:
        for found in product(*([row for row in self.arrived if row.stream == each] for each in names)):
            if len({row.key for row in found}) == 1:
                yield found


def values(found: Sequence[Arrived]) -> Result:
    return tuple(row.value for row in found)


def span(found: Sequence[Arrived]) -> int:
    return max(row.time for row in found) - min(row.time for row in found)


def pairs(world: World) -> Counter[Result]:
    """A row that was passed meets only what comes in later batches."""
    return Counter(
        values((p, q))
        for p, q in world.combinations("ab")
        if span((p, q)) < RANGE
        and not (p.is_passed("ab") and q.batch <= p.batch)
        and not (q.is_passed("ab") and p.batch <= q.batch)
    )


def table(world: World) -> Counter[Result]:
    """a has no limit: its rows are all there for any row of b; those of b are not."""
    return Counter(
        values((p, q))
        for p, q in world.combinations("ab")
        if max(p.time, q.time) - q.time < RANGE and not (p.is_passed("ab") and q.batch <= p.batch)
    )


def everything(world: World) -> Counter[Result]:
    return Counter(values(found) for found in world.combinations("ab"))


def three(world: World) -> Counter[Result]:
    """Probe trees leave out what was passed."""
    return Counter(
        values(found)
        for found in world.combinations("abc")
        if span(found) < RANGE and not any(row.is_passed("abc") for row in found)
    )


def summed(names: str) -> Callable[[World], Counter[Result]]:
    """A row counts in the windows that had not ended when it came."""

    def expected(world: World) -> Counter[Result]:
        found: Counter[tuple[int, int]] = Counter()
        for rows_ in world.combinations(names):
            for start in range(-40, 400, SLIDE):
                inside = all(start <= row.time < start + SIZE for row in rows_)
                if inside and all(row.marks.get(names, start) < start + SIZE for row in rows_):
                    found[rows_[0].key, start] += 1
        until = world.marks.get(names, -(10**9))
        return Counter((key, count, start) for (key, start), count in found.items() if start + SIZE <= until)

    return expected


def sessions(world: World) -> Counter[Result]:
    found: Counter[Result] = Counter()
    kept = [row for row in world.arrived if row.stream in "ab" and not row.is_passed("ab")]
    for key in {row.key for row in kept}:
        mine = sorted((row for row in kept if row.key == key), key=lambda row: row.time)
        parts: list[list[Arrived]] = []
        for row in mine:
            if not parts or row.time - parts[-1][-1].time >= GAP:
                parts.append([])
            parts[-1].append(row)
        for part in (part for part in parts if part[-1].time + GAP <= world.marks.get("ab", -(10**9))):
            left, right = (sum(row.stream == name for row in part) for name in "ab")
            found[key, left * right, part[0].time] += bool(left * right)
    return +found


def _join(select: str, first: str, second: str, more: str = "") -> str:
    return f"SELECT {select} FROM a {first} p JOIN b {second} q ON p.k = q.k{more}"


_RANGE, _SLIDING, _SESSION = (
    f"[RANGE {RANGE} SECONDS]",
    f"[RANGE {SIZE} SECONDS SLIDE {SLIDE} SECONDS]",
    "[SESSION 3 SECONDS]",
)
_COUNT = "p.k, COUNT(*) AS n, window_start"
QUERIES: dict[str, tuple[str, Callable[[World], Counter[Result]]]] = {
    "pairs": (_join("p.x, q.x", _RANGE, _RANGE), pairs),
    "table": (_join("p.x, q.x", "[UNBOUNDED]", _RANGE), table),
    "everything": (_join("p.x, q.x", "[UNBOUNDED]", "[UNBOUNDED]"), everything),
    "three": (_join("p.x, q.x, r.x", _RANGE, _RANGE, f" JOIN c {_RANGE} r ON q.k = r.k"), three),
    "sums": (_join(_COUNT, _SLIDING, _SLIDING, " GROUP BY p.k"), summed("ab")),
    "three_sums": (_join(_COUNT, _SLIDING, _SLIDING, f" JOIN c {_SLIDING} r ON q.k = r.k GROUP BY p.k"), summed("abc")),
    "sessions": (_join(_COUNT, _SESSION, _SESSION, " GROUP BY p.k"), sessions),
}


def results(harness: CoreHarness, name: str) -> Counter[Result]:
    found = cast("list[tuple[object, ...]]", harness.results(name))
    whole = [tuple(each if isinstance(each, int) else _seconds(each) for each in row) for row in found]
    return Counter(whole)


def _seconds(moment: object) -> int:
    return int((moment - EPOCH).total_seconds())  # type: ignore[operator]


def draw(random: Random, top: int) -> dict[str, list[tuple[int, int, int]]]:
    given = {}
    for name in random.sample("abc", random.choice((1, 1, 2, 3))):
        times = [top + random.randint(-12, 4) for _ in range(random.randint(1, 4))]
        given[name] = [(time, random.randint(1, 2), random.randint(0, 99)) for time in times]
    return given


@by_seed(60)
def test_what_an_idle_stream_missed_does_not_depend_on_what_was_freed(seed: int) -> None:
    random, world, clock = Random(seed), World(), [0.0]
    streams = [
        replace(stream(n, lateness=late), idle_timeout=timedelta(seconds=TIMEOUT)) for n, late in LATENESS.items()
    ]
    with TemporaryDirectory() as path, patch("weft.engine.inputs.clocks.time.monotonic", lambda: clock[0]):
        harness = open_core(Path(path), streams=streams, partitions=random.choice((1, 3)))
        chosen = random.sample(sorted(QUERIES), random.choice((1, 3, len(QUERIES))))
        harness.create_many([(QUERIES[name][0], name) for name in chosen])
        top = 0
        for _ in range(random.randint(3, 9)):
            clock[0] += random.choice((1, TIMEOUT + 1))
            top += random.choice((0, 1, 5, 20))
            given = draw(random, top)
            if random.random() < 0.2:
                harness.crash_during({name: [rows(*each)] for name, each in given.items()}, "before_commit")
                harness.reopen(random.choice((1, 3)))
                world.had_rows = {}
            world.take(clock[0], given)
            harness.batch({name: [rows(*each)] for name, each in given.items()})
        for name in chosen:
            assert results(harness, name) == QUERIES[name][1](world), name
