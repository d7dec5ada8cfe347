"""Random queries over given streams: selections, two-way equi-joins and aggregations, alike enough to be shared."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.support.generators.aggregates import draw_aggregation, draw_session
from tests.support.generators.data import Clock, World
from tests.support.generators.features import Features
from tests.support.generators.parts import columns_of, draw_aliases, draw_keys, draw_relation, draw_sliding
from tests.support.spec import (
    Interval,
    Key,
    OutputColumn,
    QuerySpec,
    Range,
    RelationSpec,
    Session,
    Sliding,
    Style,
    Unbounded,
    Window,
    WindowEdge,
)
from weft.plan.stream import Stream


def draw_query(random: Random, name: str, streams: Sequence[Stream], world: World, features: Features) -> QuerySpec:
    """A query over one or two of the streams."""
    if features.aggregations and random.random() < 0.5:
        if features.joins and features.sessions and features.session_joins and random.random() < 0.25:
            pair = (random.choice(streams), random.choice(streams))
            return _draw_session_join(random, name, pair, world, features)
        return draw_aggregation(random, name, streams, world, features)
    if not features.joins or random.random() < 0.25:
        return _draw_selection(random, name, random.choice(streams), world, features)
    pair = (random.choice(streams), random.choice(streams))
    return _draw_join(random, name, pair, world, features)


def _draw_selection(random: Random, name: str, stream: Stream, world: World, features: Features) -> QuerySpec:
    window = random.choice((None, None, Unbounded(), Range(random.choice(world.clock.durations)), "sliding", "sliding"))
    chosen = draw_sliding(random, world.clock, features) if isinstance(window, str) else window
    relation = draw_relation(random, 0, stream, random.choice((None, "p")), chosen, world)
    return _finish(random, name, (stream,), (relation,), (), None, features)


def _draw_join(random: Random, name: str, pair: tuple[Stream, Stream], world: World, features: Features) -> QuerySpec:
    aliases = draw_aliases(random, pair)
    interval = _draw_interval(random, world.clock) if features.intervals and random.random() < 0.1 else None
    windows = _draw_windows(random, world.clock, interval, features)
    relations = tuple(draw_relation(random, side, pair[side], aliases[side], windows[side], world) for side in (0, 1))
    keys = draw_keys(random, pair, world, features)
    return _finish(random, name, pair, relations, keys, interval, features)


def _draw_session_join(
    random: Random, name: str, pair: tuple[Stream, Stream], world: World, features: Features
) -> QuerySpec:
    aliases = draw_aliases(random, pair)
    window = draw_session(random, world.clock, joined=True)
    relations = tuple(draw_relation(random, side, pair[side], aliases[side], window, world) for side in (0, 1))
    keys = draw_keys(random, pair, world, features, of_times=False)
    return _finish(random, name, pair, relations, keys, None, features)


def _finish(
    random: Random,
    name: str,
    streams: tuple[Stream, ...],
    relations: tuple[RelationSpec, ...],
    keys: tuple[Key, ...],
    interval: Interval | None,
    features: Features,
) -> QuerySpec:
    columns: list[OutputColumn] = [column for side, stream in enumerate(streams) for column in columns_of(side, stream)]
    star = features.stars and random.random() < 0.1
    outputs = columns if star else random.choices(columns, k=random.randint(1, 4))
    if not star and isinstance(relations[0].window, Sliding | Session) and random.random() < 0.7:
        outputs += [WindowEdge(edge) for edge in random.choice((("window_start",), ("window_start", "window_end")))]
    style = Style(
        predicates_in_on=random.random() < 0.3,
        unqualified=len(streams) == 1 and random.random() < 0.5,
        star=star,
        aliased=random.random() < 0.3,
    )
    return QuerySpec(name, relations, keys, interval, tuple(outputs), style)


def _draw_interval(random: Random, clock: Clock) -> Interval:
    low, high = sorted(random.choice((0, 1, -1)) * random.choice(clock.durations) for _ in range(2))
    return random.choice((Interval(low, high), Interval(low, high), Interval(None, high), Interval(low, None)))


def _draw_windows(
    random: Random, clock: Clock, interval: Interval | None, features: Features
) -> tuple[Window | None, Window | None]:
    if interval is not None and interval.low is not None and interval.high is not None and random.random() < 0.5:
        return None, None
    roll = random.random()
    if roll < 0.4:
        window = draw_sliding(random, clock, features)
        return window, window
    if roll < 0.6:
        both = Range(random.choice(clock.durations))
        return both, both
    return _draw_continuous(random, clock), _draw_continuous(random, clock)


def _draw_continuous(random: Random, clock: Clock) -> Window:
    return Unbounded() if random.random() < 0.2 else Range(random.choice((1, *clock.durations, *clock.durations)))
