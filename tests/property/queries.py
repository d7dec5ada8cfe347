"""Random queries over given streams: selections and two-way equi-joins, alike enough that an engine shares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.property.data import Clock, World
from tests.property.evaluate import compare
from tests.property.spec import (
    And,
    Arith,
    Between,
    Col,
    Compare,
    In,
    Interval,
    IsNull,
    Key,
    Length,
    Like,
    Lit,
    Not,
    Or,
    OutputColumn,
    Predicate,
    QuerySpec,
    Range,
    RelationSpec,
    Scalar,
    Sliding,
    Style,
    Truth,
    Unbounded,
    Window,
    WindowEdge,
)
from weft.plan.stream import Stream
from weft.plan.types import BIGINT, INT, DataType, Kind

_ALIASES = (("p", "a"), ("l", "r"), ("x", "y"))
_PATTERNS = ("a%", "%c", "%b%", "_", "a_c", "%", "", "é%", "_x", "%slash", "it's")
_NUMBERS = {Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE}
_MOST_WINDOWS_PER_ROW = 8


@dataclass(frozen=True, slots=True)
class Features:
    """Parts of the language a schedule may use; all are promised, each can be left out to look at the rest."""

    joins: bool = True
    intervals: bool = True
    gaps: bool = True
    mixed_keys: bool = True
    stars: bool = True


def draw_query(random: Random, name: str, streams: Sequence[Stream], world: World, features: Features) -> QuerySpec:
    """A query over one or two of the streams."""
    if not features.joins or random.random() < 0.25:
        return _draw_selection(random, name, random.choice(streams), world, features)
    pair = (random.choice(streams), random.choice(streams))
    return _draw_join(random, name, pair, world, features)


def _draw_selection(random: Random, name: str, stream: Stream, world: World, features: Features) -> QuerySpec:
    window = random.choice((None, None, Unbounded(), Range(random.choice(world.clock.durations)), "sliding", "sliding"))
    chosen = _draw_sliding(random, world.clock, features) if isinstance(window, str) else window
    relation = _draw_relation(random, 0, stream, random.choice((None, "p")), chosen, world)
    return _finish(random, name, (stream,), (relation,), (), None, features)


def _draw_join(random: Random, name: str, pair: tuple[Stream, Stream], world: World, features: Features) -> QuerySpec:
    aliases: tuple[str | None, str | None] = random.choice(_ALIASES)
    if pair[0] is not pair[1] and random.random() < 0.2:
        aliases = (None, None)
    interval = _draw_interval(random, world.clock) if features.intervals and random.random() < 0.1 else None
    windows = _draw_windows(random, world.clock, interval, features)
    relations = tuple(_draw_relation(random, side, pair[side], aliases[side], windows[side], world) for side in (0, 1))
    keys = _draw_keys(random, pair, world, features)
    return _finish(random, name, pair, relations, keys, interval, features)


def _finish(
    random: Random,
    name: str,
    streams: tuple[Stream, ...],
    relations: tuple[RelationSpec, ...],
    keys: tuple[Key, ...],
    interval: Interval | None,
    features: Features,
) -> QuerySpec:
    columns: list[OutputColumn] = [column for side, stream in enumerate(streams) for column in _columns(side, stream)]
    star = features.stars and random.random() < 0.1
    outputs = columns if star else random.choices(columns, k=random.randint(1, 4))
    if not star and isinstance(relations[0].window, Sliding) and random.random() < 0.7:
        outputs += [WindowEdge(edge) for edge in random.choice((("window_start",), ("window_start", "window_end")))]
    style = Style(
        predicates_in_on=random.random() < 0.3,
        unqualified=len(streams) == 1 and random.random() < 0.5,
        star=star,
        aliased=random.random() < 0.3,
    )
    return QuerySpec(name, relations, keys, interval, tuple(outputs), style)


def _columns(side: int, stream: Stream) -> list[Col]:
    return [Col(side, field.name, field.type) for field in stream.schema]


def _draw_relation(
    random: Random, side: int, stream: Stream, alias: str | None, window: Window | None, world: World
) -> RelationSpec:
    depth = random.choice((0, 0, 0, 1, 2))
    predicate = _draw_predicate(random, _columns(side, stream), world, depth=depth) if random.random() < 0.5 else None
    return RelationSpec(stream.name, stream.time, alias, window, predicate)


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
        window = _draw_sliding(random, clock, features)
        return window, window
    if roll < 0.6:
        both = Range(random.choice(clock.durations))
        return both, both
    return _draw_continuous(random, clock), _draw_continuous(random, clock)


def _draw_sliding(random: Random, clock: Clock, features: Features) -> Sliding:
    size, slide = random.choice(clock.durations), random.choice(clock.durations)
    if random.random() < 0.3:
        slide = size
    if slide > size and not (features.gaps and random.random() < 0.2):
        size, slide = slide, size
    return Sliding(size, slide) if size // slide <= _MOST_WINDOWS_PER_ROW else Sliding(size, size)


def _draw_continuous(random: Random, clock: Clock) -> Window:
    return Unbounded() if random.random() < 0.2 else Range(random.choice((1, *clock.durations, *clock.durations)))


def _draw_keys(random: Random, pair: tuple[Stream, Stream], world: World, features: Features) -> tuple[Key, ...]:
    candidates = [
        (left, right)
        for left in _columns(0, pair[0])
        for right in _columns(1, pair[1])
        if _comparable(left.type, right.type, mixed=features.mixed_keys)
    ]
    shared = [(left, right) for left, right in candidates if left.name == right.name and left.name != "ts"]
    usual = shared[0] if shared and random.random() < 0.7 else random.choice(candidates)
    more = random.sample(candidates, min(len(candidates), random.choice((0, 0, 0, 0, 1, 2))))
    pairs = list(dict.fromkeys([usual, *more]))
    return tuple(_draw_key(random, left, right, world) for left, right in pairs)


def _comparable(left: DataType, right: DataType, *, mixed: bool) -> bool:
    if left == right or {left, right} == {INT, BIGINT}:
        return True
    # Only Spark casts decimals to doubles, and schedules are also run where there is no Spark.
    kinds = {left.kind, right.kind}
    return mixed and kinds <= _NUMBERS and kinds != {Kind.DECIMAL, Kind.DOUBLE}


def _draw_key(random: Random, left: Col, right: Col, world: World) -> Key:
    sides: list[Scalar] = [left, right]
    side = random.randrange(2)
    if random.random() < 0.15:
        sides[side] = _draw_arithmetic(random, (left, right)[side], world)
    return Key(sides[0], sides[1], random.random() < 0.3)


def _draw_arithmetic(random: Random, column: Col, world: World) -> Scalar:
    """An expression of the column's own type that cannot fail, or the column itself."""
    if column.type.kind not in (Kind.INT, Kind.BIGINT):
        return column
    if random.random() < 0.5 or not world.is_small(column.type.kind):
        return Arith("%", column, Lit(random.choice((2, 3, 5)), INT))
    return Arith(random.choice(("+", "-", "*")), column, Lit(random.randint(1, 3), INT))


def _draw_predicate(random: Random, columns: Sequence[Col], world: World, *, depth: int) -> Predicate:
    roll = random.random()
    if depth == 0 or roll < 0.6:
        return _draw_atom(random, columns, world)
    parts = tuple(_draw_predicate(random, columns, world, depth=depth - 1) for _ in range(random.choice((2, 2, 3))))
    if roll < 0.7:
        return And(parts)
    return Or(parts) if roll < 0.93 else Not(Or(parts))


def _draw_atom(random: Random, columns: Sequence[Col], world: World) -> Predicate:
    column = random.choice(columns)
    kind = column.type.kind
    special = random.random()
    if special < 0.08:
        return IsNull(column, random.random() < 0.5)
    if kind is Kind.STRING and special < 0.4:
        if special < 0.15:
            return Compare(_draw_comparison(random), Length(column), Lit(random.randint(0, 3), INT))
        return Like(column, random.choice(_PATTERNS), random.random() < 0.3)
    if kind is Kind.BOOLEAN and special < 0.6:
        return Truth(column) if random.random() < 0.5 else Not(Truth(column))
    others = [other for other in columns if other != column and _comparable(column.type, other.type, mixed=False)]
    if others and special < 0.25:
        return Compare(_draw_comparison(random), column, random.choice(others))
    return _draw_constant_test(random, column, world)


def _draw_constant_test(random: Random, column: Col, world: World) -> Predicate:
    value: Scalar = column
    if random.random() < 0.2:
        value = _draw_arithmetic(random, column, world)
    literals = [Lit(drawn, column.type) for drawn in world.domains[column.type.kind] if drawn != -(2**63)]
    roll = random.random()
    if roll < 0.2:
        options = random.sample(literals, min(len(literals), random.randint(1, 3)))
        if random.random() < 0.1:
            options.append(Lit(None, column.type))
        return In(value, tuple(options), random.random() < 0.3)
    if roll < 0.35:
        low, high = random.sample(literals, 2) if len(literals) > 1 else literals * 2
        if random.random() < 0.8 and compare("<=", high.value, low.value):
            low, high = high, low
        return Between(value, low, high)
    return Compare(_draw_comparison(random), value, random.choice(literals))


def _draw_comparison(random: Random) -> str:
    return random.choice(("=", "<", "<=", ">", ">=", "<", ">=", "<=", ">", "<>", "<>", "<=>"))
