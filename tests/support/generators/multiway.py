"""Schedules of joins of two to five relations, by equalities and anything else, small enough to be joined by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

from tests.support.generators.data import World, draw_world
from tests.support.generators.features import Features
from tests.support.generators.multiway_aggregates import aggregated
from tests.support.generators.queries import draw_query
from tests.support.generators.session_joins import draw_sessions
from tests.support.generators.themes import Room, Theme, draw_part, draw_theme, whole_theme
from tests.support.generators.workload import Batch, Cast, Create, Schedule, Sizes, draw_inputs, draw_steps
from tests.support.oracles.oracle import Lifetime, Oracle
from tests.support.spec import QuerySpec
from weft.plan.stream import FrameSource, Stream
from weft.plan.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, DataType, Field, Schema

AGGREGATED = Sizes(
    rows=50, batches=6, queries=6, crowds=0.0, features=Features(aggregations=False, aggregated_many=True)
)
SESSIONS = replace(AGGREGATED, features=replace(AGGREGATED.features, sessions_of_many=True))
MULTIWAY = Sizes(rows=50, batches=6, queries=6, crowds=0.0, features=Features(aggregations=False))
MOST_ROWS = 2000
# Tried one after the other until a query has rows, but not too many.
_ROOMS = (Room(), Room(2, 0.2), Room(4, 0.1), Room(1, 0.5), Room(8, 0.0))
_TYPES = (BIGINT, INT, INT, STRING, DOUBLE, TIMESTAMP, BOOLEAN)


def draw_multiway_schedule(seed: int, sizes: Sizes = MULTIWAY) -> Schedule:
    """The schedule of this seed; few of its queries have no rows, and none has too many."""
    random = Random(seed)
    world = draw_world(random)
    streams = _draw_streams(random, world)
    inputs = draw_inputs(random, streams, world, sizes)
    partitions = random.randint(1, sizes.partitions)
    crowd = random.random() < sizes.crowds
    sizes = replace(sizes, churn=random.choice((sizes.churn, sizes.churn, 0.5)))
    with Oracle(Schedule(seed, streams, 1, tuple(Batch(batch) for batch in inputs))) as oracle:
        cast = _Cast(random, streams, world, sizes.features, oracle=oracle, batches=len(inputs))
        return Schedule(seed, streams, partitions, draw_steps(cast, inputs, sizes, crowd=crowd))


def _draw_streams(random: Random, world: World) -> tuple[Stream, ...]:
    """Two to five streams that have the types of their first columns in common, and often an integer to add."""
    shared: list[DataType] = [random.choice((BIGINT, BIGINT, INT, STRING)), random.choice(_TYPES)]
    bounds = (0, 0, 1, world.clock.unit, 2 * world.clock.unit, 5 * world.clock.unit)
    streams = []
    for number in range(random.choice((2, 2, 3, 3, 4, 5))):
        types = [*shared[: random.randint(1, 2)], *random.choices(_TYPES, k=random.randint(0, 2))]
        if types[0] == BIGINT and random.random() < 0.2:
            types[0] = INT
        fields = [Field(f"c{index}", type_) for index, type_ in enumerate(types)]
        fields.insert(random.randint(0, len(fields)), Field("ts", TIMESTAMP))
        lateness = timedelta(microseconds=random.choice(bounds))
        streams.append(Stream(f"s{number}", Schema(tuple(fields)), "ts", lateness, None, FrameSource()))
    return tuple(streams)


@dataclass(kw_only=True, slots=True)
class _Cast(Cast):
    """Draws queries by themes, and looks at their results before it takes them."""

    oracle: Oracle
    batches: int
    themes: list[Theme] = field(default_factory=list)

    def draw(self, name: str) -> QuerySpec:
        """A query with rows, but not too many; now and then one without, or one of another kind."""
        if self.random.random() < 0.08:
            return draw_query(self.random, name, self.streams, self.world, self.features)
        if self.features.sessions_of_many and self.random.random() < 0.7:
            return self._draw_sessions(name)
        empty, least = None, self.random.choice((0, *[1] * 9))
        for attempt, room in enumerate(_ROOMS * 2):
            if attempt % len(_ROOMS) == 0:
                theme, count = self._theme(), self.random.choice((2, 3, 4, 5, 5, 5))
            query = draw_part(self.random, name, theme, self.world, features=self.features, count=count, room=room)
            found = self._rows(query, self.batch, MOST_ROWS + 1)
            if least <= found <= MOST_ROWS:
                wanted = self.features.aggregated_many and self.random.random() < 0.7
                return aggregated(self.random, query, self.streams, self.world) if wanted else query
            empty = query if found == 0 else empty
        return empty or draw_query(self.random, name, self.streams, self.world, self.features)

    def _draw_sessions(self, name: str) -> QuerySpec:
        """A session join, with rows if one is found soon."""
        for _ in range(10):
            query = draw_sessions(self.random, name, self.streams, self.world)
            if 1 <= self._rows(query, self.batch, MOST_ROWS + 1) <= MOST_ROWS:
                break
        wanted = self.random.random() < 0.3
        return aggregated(self.random, query, self.streams, self.world) if wanted else query

    def _theme(self) -> Theme:
        """One that was used before, more often than not."""
        if self.themes and self.random.random() < 0.75:
            return self.random.choice(self.themes)
        count = self.random.choice((2, 3, 3, 4, 4, 5, 5))
        for _ in range(8):
            theme = draw_theme(self.random, self.streams, self.world, self.features, count=count)
            if self._rows(whole_theme(theme), 0, 1):
                break
        self.themes.append(theme)
        return theme

    def _rows(self, query: QuerySpec, first: int, most: int) -> int:
        return len(self.oracle.rows(query, Lifetime(first, self.batches), most=most))


def queries_of(schedule: Schedule) -> Sequence[QuerySpec]:
    """All queries that are created, in order."""
    return [query for step in schedule.steps if isinstance(step, Create) for query in step.queries]
