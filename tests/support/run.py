"""Plays a schedule on an engine and compares every query with the oracle, as multisets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from tests.support.generators.data import from_micros, to_batch
from tests.support.generators.workload import Batch, Check, Create, Drop, Reopen, Schedule, Sizes, Step, draw_schedule
from tests.support.harness_api import Harness, Inputs, OpenHarness
from tests.support.oracles.compare import compare_rows
from tests.support.oracles.oracle import Lifetime, Oracle
from tests.support.spec import QuerySpec
from tests.support.text import weft_sql


class Mismatch(AssertionError):
    """An engine's rows are not those the query has alone."""


@dataclass(slots=True)
class _Life:
    """One query from its request on; `end` is the first batch it has no part in."""

    query: QuerySpec
    first: int
    end: int | None = None


def run_schedule(seed: int, open_harness: OpenHarness, tmp_path: Path, sizes: Sizes | None = None) -> None:
    """Draw the schedule of `seed` and play it; raises `Mismatch`, or what the engine raises, with the seed."""
    play(draw_schedule(seed, sizes or Sizes()), open_harness, tmp_path)


def play(schedule: Schedule, open_harness: OpenHarness, path: Path) -> None:
    """Play a schedule on a new engine at `path`."""
    with Oracle(schedule) as oracle:
        player = _Player(schedule, oracle, open_harness(path, schedule.streams, partitions=schedule.partitions))
        for number, step in enumerate(schedule.steps):
            try:
                player.take(step)
            except Exception as error:
                error.add_note(f"seed {schedule.seed}, step {number}: {type(step).__name__}")
                raise


@dataclass(slots=True)
class _Player:
    schedule: Schedule
    oracle: Oracle
    harness: Harness
    batches: int = 0
    lives: dict[str, _Life] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        match step:
            case Create():
                self._create(step)
            case Drop(name=name):
                self.lives[name].end = self.batches
                self.harness.drop(name)
            case Batch():
                self._batch(step)
            case Reopen(partitions=partitions):
                self.harness.reopen(partitions)
            case Check(names=names):
                for name in names:
                    self._check(self.lives[name])
            case _:
                assert_never(step)

    def _create(self, step: Create) -> None:
        for query in step.queries:
            if query.name in self.lives:
                self._check(self.lives[query.name])
            self.lives[query.name] = _Life(query, self.batches)
        items = [(weft_sql(query), query.name) for query in step.queries]
        if step.together:
            self.harness.create_many(items)
        else:
            for sql, name in items:
                self.harness.create(sql, name)

    def _batch(self, step: Batch) -> None:
        inputs = self._inputs(step)
        before = self.harness.committed_batches()
        for crash in step.crashes:
            self.harness.crash_during(inputs, crash.point)
            self.harness.reopen(crash.partitions)
            if self._committed_since(before):
                break
            if crash.point == "after_commit":
                raise Mismatch("a batch that was committed before the crash is gone after it")
            self._check_one()
        else:
            self.harness.batch(inputs)
            if any(pieces for pieces in step.input.values()) and not self._committed_since(before):
                raise Mismatch("a batch with input was run and not committed")
        self.batches += 1

    def _committed_since(self, before: int) -> bool:
        count = self.harness.committed_batches()
        if count not in (before, before + 1):
            raise Mismatch(f"one batch took the number of committed batches from {before} to {count}")
        return count > before

    def _inputs(self, step: Batch) -> Inputs:
        streams = {stream.name: stream for stream in self.schedule.streams}
        return {name: [to_batch(streams[name], piece) for piece in pieces] for name, pieces in step.input.items()}

    def _check_one(self) -> None:
        """Any one query that was live before: nothing of the batch that died may show."""
        life = next((life for life in self.lives.values() if life.first < self.batches), None)
        if life is not None:
            self._check(life)

    def _check(self, life: _Life) -> None:
        query = life.query
        lifetime = Lifetime(life.first, self.batches if life.end is None else min(life.end, self.batches))
        if life.first >= self.batches:
            return
        if life.end is None and self.harness.complete_from(query.name) != self.oracle.start(query, life.first):
            got, want = self.harness.complete_from(query.name), self.oracle.start(query, life.first)
            raise Mismatch(f"complete_from is {got}, must be {want}\n{self._describe(query, lifetime)}")
        difference = compare_rows(query, got=self.harness.results(query.name), want=self.oracle.rows(query, lifetime))
        if difference:
            raise Mismatch(f"{difference}\n{self._describe(query, lifetime)}")

    def _describe(self, query: QuerySpec, lifetime: Lifetime) -> str:
        start = self.oracle.start(query, lifetime.first)
        since = "the beginning" if start is None else f"{start:%Y-%m-%d %H:%M:%S.%f}"
        watermark = self.oracle.watermark(query, lifetime.end)
        until = "none" if watermark is None else f"{from_micros(watermark):%Y-%m-%d %H:%M:%S.%f}"
        return (
            f"  seed:  {self.schedule.seed}\n  query: {query.name}: {weft_sql(query)}\n"
            f"  lives: batches {lifetime.first} to {lifetime.end - 1}, complete from {since}, watermark {until}; "
            f"{self.batches} batches so far"
        )
