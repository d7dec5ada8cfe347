"""What random queries are made of: relations with their predicates, windows, join keys."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.support.generators.data import Clock, World
from tests.support.generators.features import Features
from tests.support.oracles.evaluate import compare
from tests.support.spec import (
    And,
    Arith,
    Between,
    Col,
    Compare,
    In,
    IsNull,
    Key,
    Length,
    Like,
    Lit,
    Not,
    Or,
    Predicate,
    RelationSpec,
    Scalar,
    Sliding,
    Truth,
    Window,
)
from weft.plan.stream import Stream
from weft.plan.types import BIGINT, INT, DataType, Kind

_ALIASES = (("p", "a"), ("l", "r"), ("x", "y"))
_PATTERNS = ("a%", "%c", "%b%", "_", "a_c", "%", "", "é%", "_x", "%slash", "it's")
_NUMBERS = {Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE}
_MOST_WINDOWS_PER_ROW = 8


def columns_of(side: int, stream: Stream) -> list[Col]:
    """Every column of a stream, as relation `side`."""
    return [Col(side, field.name, field.type) for field in stream.schema]


def draw_aliases(random: Random, pair: tuple[Stream, Stream]) -> tuple[str | None, str | None]:
    """Names for both sides of a join; two streams may do without."""
    aliases: tuple[str | None, str | None] = random.choice(_ALIASES)
    if pair[0] is not pair[1] and random.random() < 0.2:
        aliases = (None, None)
    return aliases


def draw_relation(
    random: Random, side: int, stream: Stream, alias: str | None, window: Window | None, world: World
) -> RelationSpec:
    """A stream in FROM, half the time with a predicate."""
    depth = random.choice((0, 0, 0, 1, 2))
    predicate = _draw_predicate(random, columns_of(side, stream), world, depth=depth) if random.random() < 0.5 else None
    return RelationSpec(stream.name, stream.time, alias, window, predicate)


def draw_sliding(random: Random, clock: Clock, features: Features) -> Sliding:
    """A window of which a row is not in too many."""
    size, slide = random.choice(clock.durations), random.choice(clock.durations)
    if random.random() < 0.3:
        slide = size
    if slide > size and not (features.gaps and random.random() < 0.2):
        size, slide = slide, size
    return Sliding(size, slide) if size // slide <= _MOST_WINDOWS_PER_ROW else Sliding(size, size)


def draw_keys(
    random: Random, pair: tuple[Stream, Stream], world: World, features: Features, *, of_times: bool = True
) -> tuple[Key, ...]:
    """One to three equalities, most often on the columns all streams share; `of_times` allows both event times."""
    candidates = [
        (left, right)
        for left in columns_of(0, pair[0])
        for right in columns_of(1, pair[1])
        if _comparable(left.type, right.type, mixed=features.mixed_keys)
        and (of_times or (left.name, right.name) != (pair[0].time, pair[1].time))
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
        sides[side] = draw_arithmetic(random, (left, right)[side], world)
    return Key(sides[0], sides[1], random.random() < 0.3)


def draw_arithmetic(random: Random, column: Col, world: World) -> Scalar:
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
            return Compare(draw_comparison(random), Length(column), Lit(random.randint(0, 3), INT))
        return Like(column, random.choice(_PATTERNS), random.random() < 0.3)
    if kind is Kind.BOOLEAN and special < 0.6:
        return Truth(column) if random.random() < 0.5 else Not(Truth(column))
    others = [other for other in columns if other != column and _comparable(column.type, other.type, mixed=False)]
    if others and special < 0.25:
        return Compare(draw_comparison(random), column, random.choice(others))
    return _draw_constant_test(random, column, world)


def _draw_constant_test(random: Random, column: Col, world: World) -> Predicate:
    value: Scalar = column
    if random.random() < 0.2:
        value = draw_arithmetic(random, column, world)
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
    return Compare(draw_comparison(random), value, random.choice(literals))


def draw_comparison(random: Random) -> str:
    """An operator."""
    return random.choice(("=", "<", "<=", ">", ">=", "<", ">=", "<=", ">", "<>", "<>", "<=>"))
