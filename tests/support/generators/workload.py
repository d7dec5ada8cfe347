"""From one integer a whole schedule: streams, rows cut into batches, queries that come and go, crashes, restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from tests.support.generators.aggregates import draw_sibling
from tests.support.generators.data import Row, World, draw_last_row, draw_rows, draw_streams, draw_world
from tests.support.generators.features import Features
from tests.support.generators.queries import draw_query
from tests.support.harness_api import CRASH_POINTS
from tests.support.spec import QuerySpec
from weft.plan.stream import Stream


@dataclass(frozen=True, slots=True)
class Sizes:
    """Upper limits of a schedule; `crowds` is the share of schedules with more than 64 live queries.

    `churn` is how likely a query goes at a boundary.
    """

    rows: int = 120
    batches: int = 8
    queries: int = 10
    crowds: float = 0.04
    partitions: int = 5
    churn: float = 0.15
    features: Features = field(default_factory=Features)


SMALL = Sizes(rows=30, batches=5, queries=5, crowds=0.0)

Pieces = tuple[tuple[Row, ...], ...]
Input = Mapping[str, Pieces]


@dataclass(frozen=True, slots=True)
class Create:
    """Requests for queries; `together` asks for all of them in one call."""

    queries: tuple[QuerySpec, ...]
    together: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """A request that a query goes."""

    name: str


@dataclass(frozen=True, slots=True)
class Crash:
    """The batch dies at `point` and a new engine with `partitions` is opened."""

    point: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of input; it counts once however often it crashes before it is committed."""

    input: Input
    crashes: tuple[Crash, ...] = ()


@dataclass(frozen=True, slots=True)
class Reopen:
    """An orderly restart, with no request pending."""

    partitions: int


@dataclass(frozen=True, slots=True)
class Check:
    """Compare the committed rows of these queries now."""

    names: tuple[str, ...]


Step = Create | Drop | Batch | Reopen | Check


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything one run does; equal seeds and sizes give equal schedules."""

    seed: int
    streams: tuple[Stream, ...]
    partitions: int
    steps: tuple[Step, ...]


def draw_schedule(seed: int, sizes: Sizes) -> Schedule:
    """The schedule of this seed."""
    random = Random(seed)
    world = draw_world(random)
    streams = draw_streams(random, world)
    inputs = draw_inputs(random, streams, world, sizes)
    crowd = random.random() < sizes.crowds
    partitions = random.randint(1, sizes.partitions)
    steps = draw_steps(Cast(random, streams, world, sizes.features), inputs, sizes, crowd=crowd)
    return Schedule(seed, streams, partitions, steps)


def draw_steps(cast: Cast, inputs: Sequence[Input], sizes: Sizes, *, crowd: bool = False) -> tuple[Step, ...]:
    """The input batch by batch, with requests before, crashes during and restarts and checks after batches."""
    random = cast.random
    steps: list[Step] = []
    for index, batch in enumerate(inputs):
        steps += _draw_crowd(cast, index) if crowd else _draw_requests(cast, sizes)
        crashes = _draw_crashes(random, sizes) if _rows_in(batch) else ()
        steps.append(Batch(batch, crashes))
        cast.end_batch()
        if random.random() < 0.1:
            steps.append(Reopen(random.randint(1, sizes.partitions)))
        if cast.everyone and random.random() < 0.3:
            steps.append(Check((random.choice(cast.everyone),)))
    steps.append(Check(tuple(cast.everyone)))
    return tuple(steps)


@dataclass(slots=True)
class Cast:
    """Who is live while a schedule is being drawn."""

    random: Random
    streams: Sequence[Stream]
    world: World
    features: Features
    live: list[str] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    everyone: list[str] = field(default_factory=list)
    models: list[QuerySpec] = field(default_factory=list)
    batch: int = 0

    def create(self, count: int) -> Create:
        """A request for so many queries, some under the name of one dropped earlier."""
        queries = tuple(self.draw(self._name()) for _ in range(count))
        self.live += [query.name for query in queries]
        return Create(queries, together=count > 1 and self.random.random() < 0.7)

    def drop(self) -> Drop:
        """A request that any live query goes, also one just asked for."""
        name = self.live.pop(self.random.randrange(len(self.live)))
        self.leaving.append(name)
        return Drop(name)

    def end_batch(self) -> None:
        """Drops have taken effect, so their names are free."""
        self.free += self.leaving
        self.leaving.clear()
        self.batch += 1

    def draw(self, name: str) -> QuerySpec:
        """A query, now and then one that can share all the work of an earlier aggregation but the filter."""
        if self.models and self.random.random() < 0.35:
            model = self.random.choice(self.models)
            return draw_sibling(self.random, name, model, self.streams, self.world, self.features)
        query = draw_query(self.random, name, self.streams, self.world, self.features)
        if query.grouping is not None:
            self.models.append(query)
        return query

    def _name(self) -> str:
        if self.free and self.random.random() < 0.7:
            return self.free.pop(self.random.randrange(len(self.free)))
        self.everyone.append(f"q{len(self.everyone)}")
        return self.everyone[-1]


def _draw_requests(cast: Cast, sizes: Sizes) -> list[Step]:
    random = cast.random
    steps: list[Step] = []
    while cast.live and random.random() < sizes.churn:
        steps.append(cast.drop())
    if random.random() < (max(0.3, sizes.churn) if cast.everyone else 0.75):
        steps.append(cast.create(random.randint(1, max(1, sizes.queries // 2))))
    if cast.live and random.random() < 0.05:
        steps.append(cast.drop())
    return steps


def _draw_crowd(cast: Cast, index: int) -> list[Step]:
    """Now more queries than one word of a query-set holds, now a few, and again."""
    random = cast.random
    if index % 3 == 0:
        return [cast.create(random.randint(60, 100))]
    if index % 3 == 1:
        drops: list[Step] = [cast.drop() for _ in range(int(len(cast.live) * random.choice((0.1, 0.5, 0.95))))]
        return [*drops, cast.create(random.randint(1, 5))]
    return []


def _draw_crashes(random: Random, sizes: Sizes) -> tuple[Crash, ...]:
    count = random.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2))
    return tuple(Crash(random.choice(CRASH_POINTS), random.randint(1, sizes.partitions)) for _ in range(count))


def draw_inputs(random: Random, streams: Sequence[Stream], world: World, sizes: Sizes) -> list[Input]:
    """Rows of every stream, cut into batches and pieces."""
    batches = random.randint(1, sizes.batches)
    inputs: list[dict[str, Pieces]] = [{} for _ in range(batches)]
    for stream in streams:
        count = random.choice((sizes.rows // 10, sizes.rows // 4, sizes.rows // 2, sizes.rows, sizes.rows))
        rows = draw_rows(random, stream, world, count=count) if random.random() < 0.95 else []
        for batch, part in zip(inputs, _cut(random, rows, batches), strict=True):
            if part or random.random() < 0.5:
                batch[stream.name] = tuple(_cut(random, part, random.choice((1, 1, 1, 2, 3))))
    if sizes.features.aggregations and random.random() < 0.5:
        inputs.append({stream.name: ((draw_last_row(random, stream, world),),) for stream in streams})
    return list(inputs)


def _cut(random: Random, rows: Sequence[Row], count: int) -> list[tuple[Row, ...]]:
    """Cut anywhere, so that parts may be empty."""
    cuts = [0, *sorted(random.randint(0, len(rows)) for _ in range(count - 1)), len(rows)]
    return [tuple(rows[start:end]) for start, end in pairwise(cuts)]


def _rows_in(batch: Input) -> int:
    return sum(len(piece) for pieces in batch.values() for piece in pieces)
