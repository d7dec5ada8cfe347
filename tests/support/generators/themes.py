"""Join graphs that several queries take parts of, because what queries share is what can go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.support.generators.columns import renumbered
from tests.support.generators.data import Clock, World
from tests.support.generators.features import Features
from tests.support.generators.links import Link, draw_distance, draw_link, not_much_later
from tests.support.generators.parts import columns_of, draw_relation, draw_sliding
from tests.support.spec import (
    Col,
    OutputColumn,
    Predicate,
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
from weft.plan.types import TIMESTAMP
from weft.sql.names.connection import linked_groups

_ALIASES = ("abcde", "pqrst", "vwxyz")


@dataclass(frozen=True, slots=True)
class Theme:
    """The stream of each relation, and what joins them."""

    streams: tuple[Stream, ...]
    links: tuple[Link, ...]


def draw_theme(random: Random, streams: Sequence[Stream], world: World, features: Features, *, count: int) -> Theme:
    """A chain, star, cycle or mixture of so many relations; a stream may occur several times."""
    chosen = tuple(random.choice(streams) for _ in range(count))
    return Theme(chosen, tuple(draw_link(random, chosen, edge, world, features) for edge in _draw_edges(random, count)))


def _draw_edges(random: Random, count: int) -> list[tuple[int, ...]]:
    chain: list[tuple[int, ...]] = [(number, number + 1) for number in range(count - 1)]
    star: list[tuple[int, ...]] = [(0, number) for number in range(1, count)]
    everything: list[tuple[int, ...]] = [(i, j) for j in range(count) for i in range(j)]
    match random.choice(("chain", "star", "cycle", "mixed", "mixed")):
        case "chain":
            edges = chain
        case "star":
            edges = star
        case "cycle":
            edges = chain if count == 2 else [*chain, (0, count - 1)]
        case _:
            tree: list[tuple[int, ...]] = [(random.randrange(number), number) for number in range(1, count)]
            edges = list(dict.fromkeys([*tree, *random.sample(everything, random.randint(0, min(2, len(everything))))]))
    if count > 2 and random.random() < 0.3:
        three = tuple(sorted(random.sample(range(count), 3)))
        # Now and then it is all that joins one of them.
        alone = random.random() < 0.3
        edges = [edge for edge in edges if not (alone and three[2] in edge and set(edge) <= set(three))] + [three]
        if len(linked_groups(count, edges)) > 1:
            edges = [*chain, three]
    return edges


@dataclass(frozen=True, slots=True)
class Room:
    """How much of the data queries see: windows are `longer` times as long, `filtered` is the share of predicates."""

    longer: int = 1
    filtered: float = 0.35


def draw_part(
    random: Random, name: str, theme: Theme, world: World, *, features: Features, count: int, room: Room
) -> QuerySpec:
    """A query over a connected part of the theme, of about `count` relations in any order."""
    chosen, links = _draw_subgraph(random, theme, count)
    links = [
        draw_link(random, theme.streams, link.relations, world, features) if random.random() < 0.1 else link
        for link in links
    ]
    if random.random() < 0.5:
        random.shuffle(chosen)
    numbers = {relation: number for number, relation in enumerate(chosen)}
    streams = tuple(theme.streams[relation] for relation in chosen)
    conditions = [renumbered(condition, numbers) for link in links for condition in link.conditions]
    edges = [tuple(sorted(numbers[each] for each in link.relations)) for link in links]
    longer = replace(world, clock=_slower(world.clock, room.longer))
    windows, limits = _draw_windows(random, streams, edges, longer, features)
    relations = draw_relations(random, streams, windows, world, filtered=room.filtered)
    return finish(random, name, streams, relations, tuple(dict.fromkeys([*conditions, *limits])))


def _slower(clock: Clock, factor: int) -> Clock:
    return replace(clock, durations=tuple(duration * factor for duration in clock.durations))


def whole_theme(theme: Theme) -> QuerySpec:
    """All combinations the theme has in all data: if there are none, no part of it with all its links has any."""
    relations = tuple(
        RelationSpec(stream.name, stream.time, alias, Unbounded(), None)
        for stream, alias in zip(theme.streams, _ALIASES[0], strict=False)
    )
    style = Style(predicates_in_on=False, unqualified=False, star=False, aliased=False)
    conditions = tuple(condition for link in theme.links for condition in link.conditions)
    outputs = (Col(0, theme.streams[0].time, TIMESTAMP),)
    return QuerySpec("whole", relations, (), None, outputs, style, conditions=conditions)


def _draw_subgraph(random: Random, theme: Theme, count: int) -> tuple[list[int], list[Link]]:
    """Relations in ascending order, and links that connect them: not always all there are."""
    whole = len(theme.streams)
    chosen = {random.randrange(whole)}
    while len(chosen) < min(count, whole):
        reached = [set(link.relations) for link in theme.links if set(link.relations) & chosen]
        chosen |= random.choice([relations for relations in reached if relations - chosen])
    links = [link for link in theme.links if set(link.relations) <= chosen]
    if random.random() < 0.2:
        fewer = [link for link in links if link is not random.choice(links)]
        links = fewer if _connected(chosen, fewer) else links
    return sorted(chosen), links


def _connected(chosen: set[int], links: Sequence[Link]) -> bool:
    groups = linked_groups(max(chosen) + 1, [link.relations for link in links])
    return any(chosen <= set(group) for group in groups)


def _draw_windows(
    random: Random, streams: Sequence[Stream], edges: Sequence[tuple[int, ...]], world: World, features: Features
) -> tuple[list[Window | None], list[Predicate]]:
    """A window per relation, and the conditions that relations without one need."""
    clock, count = world.clock, len(streams)
    pairs = [edge for edge in edges if len(edge) == 2]
    roll = random.random()
    if roll < 0.35:
        return [draw_sliding(random, clock, features)] * count, []
    if roll < 0.4:
        return [Unbounded()] * count, []
    if roll < 0.48 and features.intervals and len(linked_groups(count, pairs)) == 1:
        return [None] * count, [_distance(random, streams, pair, world) for pair in pairs]
    if roll < 0.6:
        return [Range(random.choice(clock.durations))] * count, []
    windows: list[Window | None] = [_draw_continuous(random, clock) for _ in range(count)]
    if pairs and features.intervals and random.random() < 0.15:
        # Its own age is limited against one other relation, whose window limits it against the rest.
        bare, other = random.sample(random.choice(pairs), 2)
        windows = [Range(random.choice(clock.durations)) for _ in range(count)]
        windows[bare] = None
        of, than = (Col(side, streams[side].time, TIMESTAMP) for side in (other, bare))
        return windows, [not_much_later(of, than, random.choice((0, *clock.durations)))]
    return windows, []


def _distance(random: Random, streams: Sequence[Stream], pair: tuple[int, ...], world: World) -> Predicate:
    sides = (streams[pair[0]], streams[pair[1]])
    return renumbered(draw_distance(random, sides, world, both_ends=True), dict(enumerate(pair)))


def _draw_continuous(random: Random, clock: Clock) -> Window:
    return Unbounded() if random.random() < 0.1 else Range(random.choice((1, *clock.durations, *clock.durations)))


def draw_relations(
    random: Random, streams: Sequence[Stream], windows: Sequence[Window | None], world: World, *, filtered: float
) -> tuple[RelationSpec, ...]:
    """The relations of a query, some with a predicate of their own."""
    relations = []
    for side, (stream, alias) in enumerate(zip(streams, _draw_aliases(random, streams), strict=True)):
        relation = draw_relation(random, side, stream, alias, windows[side], world)
        # Half of those drawn have a predicate.
        relations.append(relation if random.random() < 2 * filtered else replace(relation, predicate=None))
    return tuple(relations)


def finish(
    random: Random,
    name: str,
    streams: Sequence[Stream],
    relations: tuple[RelationSpec, ...],
    conditions: tuple[Predicate, ...],
) -> QuerySpec:
    """The query of these relations, with outputs and a way to be written."""
    star = random.random() < 0.05
    style = Style(
        predicates_in_on=random.random() < 0.3,
        unqualified=False,
        star=star,
        aliased=random.random() < 0.3,
        commas=random.random() < 0.3,
    )
    outputs = _draw_outputs(random, streams, relations, star=star)
    return QuerySpec(name, relations, (), None, outputs, style, conditions=conditions)


def _draw_outputs(
    random: Random, streams: Sequence[Stream], relations: Sequence[RelationSpec], *, star: bool
) -> tuple[OutputColumn, ...]:
    """Half the time every event time, so that rows put together wrongly cannot look right."""
    columns: list[OutputColumn] = [column for side, stream in enumerate(streams) for column in columns_of(side, stream)]
    if star:
        return tuple(columns)
    outputs: list[OutputColumn] = random.choices(columns, k=random.randint(1, 4))
    if random.random() < 0.5:
        outputs += [Col(side, stream.time, TIMESTAMP) for side, stream in enumerate(streams)]
    if isinstance(relations[0].window, Sliding | Session) and random.random() < 0.7:
        outputs += [WindowEdge(edge) for edge in random.choice((("window_start",), ("window_start", "window_end")))]
    return tuple(outputs)


def _draw_aliases(random: Random, streams: Sequence[Stream]) -> list[str | None]:
    """A name for each relation; a stream that occurs once may keep its own."""
    names = [stream.name for stream in streams]
    bare = random.random() < 0.2
    return [
        None if bare and names.count(name) == 1 else alias
        for name, alias in zip(names, random.choice(_ALIASES), strict=False)
    ]
