"""Random conditions between relations: equalities, comparisons, sums across relations, distances in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.support.generators.columns import renumbered
from tests.support.generators.data import World
from tests.support.generators.features import Features
from tests.support.generators.parts import columns_of, draw_keys
from tests.support.spec import Arith, Between, Col, Compare, Lit, Mixed, Not, Or, Predicate, Scalar, Shift
from weft.plan.stream import Stream
from weft.plan.types import BIGINT, INT, TIMESTAMP, Kind

_ORDERS = ("<", "<=", ">", ">=", "<>")


@dataclass(frozen=True, slots=True)
class Link:
    """Conditions that join `relations`, each over all or some of them."""

    relations: tuple[int, ...]
    conditions: tuple[Predicate, ...]


def draw_link(
    random: Random, streams: Sequence[Stream], relations: tuple[int, ...], world: World, features: Features
) -> Link:
    """What joins two or three relations; `streams` are those of all relations of the query."""
    if len(relations) == 3:
        return Link(relations, (_draw_three(random, streams, relations, world),))
    pair = (streams[relations[0]], streams[relations[1]])
    numbers = dict(enumerate(relations))
    return Link(relations, tuple(renumbered(each, numbers) for each in _draw_pair(random, pair, world, features)))


def _draw_pair(random: Random, pair: tuple[Stream, Stream], world: World, features: Features) -> tuple[Predicate, ...]:
    """Conditions over relations 0 and 1, with equalities more often than not."""
    roll = random.random()
    if roll < 0.55:
        return _draw_equalities(random, pair, world, features)
    if roll < 0.72:
        return (*_draw_equalities(random, pair, world, features), draw_theta(random, pair, world))
    if roll < 0.8:
        return (*_draw_equalities(random, pair, world, features), draw_distance(random, pair, world))
    if roll < 0.87:
        return (draw_distance(random, pair, world),)
    if roll < 0.92:
        return (draw_theta(random, pair, world), draw_distance(random, pair, world))
    return tuple(draw_theta(random, pair, world) for _ in range(random.choice((1, 1, 2))))


def _draw_equalities(
    random: Random, pair: tuple[Stream, Stream], world: World, features: Features
) -> tuple[Predicate, ...]:
    return tuple(
        Compare("=", key.right, key.left) if key.swapped else Compare("=", key.left, key.right)
        for key in draw_keys(random, pair, world, features)
    )


def draw_distance(random: Random, pair: tuple[Stream, Stream], world: World, *, both_ends: bool = False) -> Predicate:
    """How far apart the event times of relations 0 and 1 may be, either way round."""
    times = [Col(side, stream.time, TIMESTAMP) for side, stream in enumerate(pair)]
    later, earlier = times if random.random() < 0.5 else reversed(times)
    low, high = sorted(random.choice((0, 0, 1, -1)) * random.choice(world.clock.durations) for _ in range(2))
    if both_ends or random.random() < 0.7:
        return Between(later, _moved(earlier, low), _moved(earlier, high))
    return Compare(random.choice(("<", "<=", ">", ">=")), later, _moved(earlier, random.choice((low, high))))


def not_much_later(of: Col, than: Col, micros: int) -> Predicate:
    """The event time `of` is at most so much later `than` the other."""
    return Compare("<=", of, _moved(than, micros))


def _moved(time: Col, micros: int) -> Scalar:
    return Shift(time, micros) if micros else time


def draw_theta(random: Random, pair: tuple[Stream, Stream], world: World) -> Predicate:
    """A condition over relations 0 and 1 that is no equality."""
    numbers = [[column for column in columns_of(side, pair[side]) if _adds_up(column, world)] for side in (0, 1)]
    roll = random.random()
    if all(numbers) and roll < 0.5:
        return _draw_sum(random, random.choice(numbers[0]), random.choice(numbers[1]))
    left, right = random.choice(_comparable(pair))
    if roll < 0.85:
        return Compare(random.choice(_ORDERS), *random.sample((left, right), 2))
    other = random.choice(_comparable(pair))
    if roll < 0.9:
        return Compare("<=>", left, right)
    if roll < 0.95:
        return Or((Compare("=", left, right), Compare(random.choice(_ORDERS), *other)))
    return Not(Compare(random.choice((*_ORDERS, "=")), left, right))


def _draw_sum(random: Random, left: Col, right: Col) -> Predicate:
    """Arithmetic on one or both sides of a comparison of small integers."""
    first, second = random.sample((left, right), 2)
    step = Lit(random.randint(1, 3), INT)
    roll = random.random()
    if roll < 0.4:
        return Between(first, random.choice((second, Arith("-", second, step))), Arith("+", second, step))
    if roll < 0.5:
        return Not(Between(first, second, Arith("+", second, step)))
    if roll < 0.8:
        total = Mixed(random.choice("+-"), first, second)
        return Compare(random.choice((*_ORDERS, "=")), total, Lit(random.randint(-1, 5), INT))
    return Compare(random.choice(_ORDERS), Arith(random.choice("+-*"), first, step), second)


def _draw_three(random: Random, streams: Sequence[Stream], relations: tuple[int, ...], world: World) -> Predicate:
    """A condition over three relations at once."""
    numbers = [[each for each in columns_of(side, streams[side]) if _adds_up(each, world)] for side in relations]
    if all(numbers):
        a, b, c = (random.choice(some) for some in random.sample(numbers, 3))
        total = Mixed(random.choice("+-"), a, b)
        if random.random() < 0.5:
            return Compare(random.choice((*_ORDERS, "=")), total, c)
        return Compare(random.choice(_ORDERS), Mixed("+", total, c), Lit(random.randint(-2, 6), INT))
    first, second, third = relations
    one = random.choice(_comparable((streams[first], streams[second])))
    two = random.choice(_comparable((streams[second], streams[third])))
    return Or(
        (
            renumbered(Compare("=", *one), {0: first, 1: second}),
            renumbered(Compare(random.choice(_ORDERS), *two), {0: second, 1: third}),
        )
    )


def _adds_up(column: Col, world: World) -> bool:
    return column.type.kind in (Kind.INT, Kind.BIGINT) and world.is_small(column.type.kind)


def _comparable(pair: tuple[Stream, Stream]) -> list[tuple[Col, Col]]:
    """Columns of one type, which every two streams have: at least their event times."""
    return [
        (left, right)
        for left in columns_of(0, pair[0])
        for right in columns_of(1, pair[1])
        if left.type == right.type or {left.type, right.type} == {INT, BIGINT}
    ]
