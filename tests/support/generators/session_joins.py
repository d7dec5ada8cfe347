"""Session windows over joins of several relations, or by more than equalities: all have one key in common."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.support.generators.aggregates import draw_session
from tests.support.generators.columns import renumbered
from tests.support.generators.data import World
from tests.support.generators.links import draw_theta
from tests.support.generators.themes import draw_relations, finish
from tests.support.spec import Col, Compare, Predicate, QuerySpec
from tests.support.text import weft_sql
from weft.errors import WeftError
from weft.plan.stream import Stream
from weft.plan.types import DataType
from weft.sql import bind

_TRIES = 20


def draw_sessions(random: Random, name: str, streams: Sequence[Stream], world: World) -> QuerySpec:
    """A join of two to four relations by their first columns, or the first two, and often by something else."""
    for _ in range(_TRIES):
        chosen = tuple(random.choice(streams) for _ in range(random.choice((2, 3, 3, 3, 4))))
        window = draw_session(random, world.clock, joined=True)
        relations = draw_relations(random, chosen, [window] * len(chosen), world, filtered=0.3)
        spec = finish(random, name, chosen, relations, _draw_conditions(random, chosen, world))
        try:
            bind(weft_sql(spec), {stream.name: stream for stream in streams})
        except WeftError:
            continue
        return spec
    raise AssertionError("no session join was accepted")


def _draw_conditions(random: Random, streams: Sequence[Stream], world: World) -> tuple[Predicate, ...]:
    numbers = list(range(len(streams)))
    random.shuffle(numbers)
    edges = [(numbers[at], numbers[random.randrange(at)]) for at in range(1, len(numbers))]
    names = ["c0"]
    seconds = {None if (field := stream.schema.find("c1")) is None else field.type for stream in streams}
    if random.random() < 0.2 and len(seconds) == 1 and None not in seconds:
        names.append("c1")
    conditions: list[Predicate] = []
    for one, other in edges:
        for column in names:
            sides = [Col(at, column, _type(streams[at], column)) for at in (one, other)]
            conditions.append(Compare("=", sides[0], sides[1]))
    # Without it a join of two relations would be of another kind.
    for _ in range(random.choice((0, 1, 1)) if len(streams) > 2 else 1):
        first, second = sorted(random.sample(numbers, 2))
        theta = draw_theta(random, (streams[first], streams[second]), world)
        conditions.append(renumbered(theta, {0: first, 1: second}))
    return tuple(dict.fromkeys(conditions))


def _type(stream: Stream, column: str) -> DataType:
    field = stream.schema.find(column)
    assert field is not None
    return field.type
