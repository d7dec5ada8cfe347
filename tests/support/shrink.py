"""A failing schedule made smaller while it still fails, and written out for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import TypeVar

from tests.support.generators.data import Row
from tests.support.generators.workload import Batch, Check, Create, Drop, Input, Reopen, Schedule, Step
from tests.support.text import weft_sql

T = TypeVar("T")
Fails = Callable[[Schedule], bool]


def shrink(schedule: Schedule, fails: Fails, *, seconds: float) -> Schedule:
    """A schedule that fails and from which no one part can be left out, or the best found in time."""
    until = monotonic() + seconds
    best, progress = schedule, True
    while progress and monotonic() < until:
        progress = False
        position, candidates = 0, list(_smaller(best))
        while position < len(candidates) and monotonic() < until:
            smaller = candidates[position]
            if _weight(smaller) < _weight(best) and fails(smaller):
                # Go on at the same place: what was tried before it is unlikely to succeed now.
                best, progress, candidates = smaller, True, list(_smaller(smaller))
            else:
                position += 1
    return best


def _weight(schedule: Schedule) -> int:
    return sum(_step_weight(step) for step in schedule.steps) + schedule.partitions


def _step_weight(step: Step) -> int:
    match step:
        case Create(queries=queries):
            return 1 + 3 * len(queries)
        case Batch(input=batch, crashes=crashes):
            return 1 + 3 * len(crashes) + sum(1 + len(piece) for pieces in batch.values() for piece in pieces)
        case Check(names=names):
            return len(names)
        case Drop() | Reopen():
            return 2


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules with something left out, largest parts first."""
    steps = schedule.steps
    names = tuple({query.name: None for step in steps if isinstance(step, Create) for query in step.queries})
    for some in _without_parts(names):
        yield _repaired(schedule, tuple(_only(step, some) for step in steps))
    for fewer in _without_parts(steps):
        yield _repaired(schedule, fewer)
    for index, step in enumerate(steps):
        for lighter in _lighter(step):
            yield _repaired(schedule, (*steps[:index], lighter, *steps[index + 1 :]))
    if schedule.partitions > 1:
        yield replace(schedule, partitions=1)


def _only(step: Step, names: tuple[str, ...]) -> Step:
    """The step with no other queries than these."""
    if isinstance(step, Create):
        return replace(step, queries=tuple(query for query in step.queries if query.name in names))
    return step


def _lighter(step: Step) -> Iterator[Step]:
    match step:
        case Create(queries=queries):
            for part in _without_parts(queries):
                yield replace(step, queries=part)
        case Batch(input=batch, crashes=crashes):
            for fewer in _without_parts(crashes):
                yield replace(step, crashes=fewer)
            for less in _less_input(batch):
                yield replace(step, input=less)
        case Check(names=names):
            for some in _without_parts(names):
                yield replace(step, names=some)
        case Drop() | Reopen():
            return


def _less_input(batch: Input) -> Iterator[Input]:
    for stream, pieces in batch.items():
        rows: tuple[Row, ...] = tuple(row for piece in pieces for row in piece)
        if len(pieces) > 1:
            yield {**batch, stream: (rows,)}
        for fewer in _without_parts(rows):
            yield {**batch, stream: (fewer,)}
        if not rows:
            yield {name: kept for name, kept in batch.items() if name != stream}


def _without_parts(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2


def _repaired(schedule: Schedule, steps: tuple[Step, ...]) -> Schedule:
    """Without requests and checks that make no sense any more."""
    live: set[str] = set()
    leaving: set[str] = set()
    known: set[str] = set()
    kept: list[Step] = []
    for step in steps:
        match step:
            case Create(queries=queries):
                queries = tuple(query for query in queries if query.name not in live | leaving)
                live |= {query.name for query in queries}
                known |= live
                kept += [replace(step, queries=queries)] if queries else []
            case Drop(name=name):
                if name in live:
                    kept.append(step)
                    live.discard(name)
                    leaving.add(name)
            case Batch():
                kept.append(step)
                leaving.clear()
            case Reopen():
                kept += [step] if kept and isinstance(kept[-1], Batch) else []
            case Check(names=names):
                names = tuple(name for name in names if name in known)
                kept += [replace(step, names=names)] if names else []
    return replace(schedule, steps=tuple(kept))


def describe(schedule: Schedule) -> str:
    """A schedule as text, one step after the other."""
    lines = [f"seed {schedule.seed}, {schedule.partitions} partitions"]
    lines += [f"stream {s.name} ({s.schema.ddl()}), lateness {s.lateness}" for s in schedule.streams]
    number = 0
    for step in schedule.steps:
        match step:
            case Create(queries=queries, together=together):
                lines.append("create together" if together else "create")
                lines += [f"    {query.name}: {weft_sql(query)}" for query in queries]
            case Drop(name=name):
                lines.append(f"drop {name}")
            case Batch():
                lines += _describe_batch(number, step)
                number += 1
            case Reopen(partitions=partitions):
                lines.append(f"reopen with {partitions} partitions")
            case Check(names=names):
                lines.append(f"check {', '.join(names)}")
    return "\n".join(lines)


def _describe_batch(number: int, step: Batch) -> Iterator[str]:
    yield f"batch {number}"
    for crash in step.crashes:
        yield f"    crash at {crash.point}, then reopen with {crash.partitions} partitions"
    for stream, pieces in step.input.items():
        for piece in pieces:
            yield f"    piece of {stream}"
            for row in piece:
                yield "        " + ", ".join(str(value) for value in row)
