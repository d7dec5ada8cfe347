"""Random aggregations over one stream or a two-way equi-join, and siblings that differ only in what they filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random

from tests.support.generators.data import Clock, World
from tests.support.generators.features import Features
from tests.support.generators.parts import (
    columns_of,
    draw_aliases,
    draw_arithmetic,
    draw_comparison,
    draw_keys,
    draw_relation,
    draw_sliding,
)
from tests.support.spec import (
    Arith,
    Call,
    Col,
    Grouping,
    GroupKey,
    Having,
    Length,
    Lit,
    OutputColumn,
    Product,
    QuerySpec,
    RelationSpec,
    Scalar,
    Session,
    Sliding,
    Style,
    WindowEdge,
    type_of,
)
from weft.plan.stream import Stream
from weft.plan.types import BIGINT, DOUBLE, INT, DataType, Kind

_INTEGERS = (Kind.INT, Kind.BIGINT)
_NUMBERS = (*_INTEGERS, Kind.DECIMAL, Kind.DOUBLE)
_FUNCTIONS = ("count", "count", "sum", "sum", "min", "max", "avg", "stddev", "distinct", "distinct")
_SUM_OF_DECIMALS = DataType(Kind.DECIMAL, 20, 2)
_MEAN_OF_DECIMALS = DataType(Kind.DECIMAL, 14, 6)
_ROWS = Call("count", None, BIGINT)


def draw_aggregation(
    random: Random, name: str, streams: Sequence[Stream], world: World, features: Features
) -> QuerySpec:
    """An aggregation over one of the streams, or over a join of two."""
    joined = features.joins and features.aggregated_joins and random.random() < 0.4
    chosen = tuple(random.choice(streams) for _ in range(2 if joined else 1))
    window = _draw_window(random, world.clock, features, joined=joined)
    if joined:
        pair = (chosen[0], chosen[1])
        aliases = draw_aliases(random, pair)
        # A condition on the distance of two event times is not combined with aggregation.
        keys = draw_keys(random, pair, world, features, of_times=False)
    else:
        aliases, keys = (random.choice((None, "p")), None), ()
    relations = tuple(
        draw_relation(random, side, stream, aliases[side], window, world) for side, stream in enumerate(chosen)
    )
    spec = QuerySpec(name, relations, keys, None, (), _draw_style(random, joined=joined))
    grouped_by = draw_group_keys(random, chosen, world)
    in_group_by = not joined and _spark_has(window) and random.random() < 0.4
    return with_results(
        random, replace(spec, grouping=Grouping(grouped_by, None, in_group_by)), chosen, world, features
    )


def draw_sibling(
    random: Random, name: str, model: QuerySpec, streams: Sequence[Stream], world: World, features: Features
) -> QuerySpec:
    """An aggregation over the same relations, keys and groups, and often windows, with filters and calls of its own."""
    by_name = {stream.name: stream for stream in streams}
    chosen = tuple(by_name[relation.stream] for relation in model.relations)
    window = model.sliding or model.session
    assert window is not None
    if random.random() < 0.4:
        window = _draw_window(random, world.clock, features, joined=len(chosen) == 2)
    relations: tuple[RelationSpec, ...] = tuple(
        draw_relation(random, side, by_name[relation.stream], relation.alias, window, world)
        for side, relation in enumerate(model.relations)
    )
    assert model.grouping is not None
    grouping = replace(model.grouping, in_group_by=model.grouping.in_group_by and _spark_has(window))
    spec = replace(model, name=name, relations=relations, grouping=grouping)
    return with_results(random, spec, chosen, world, features)


def draw_session(random: Random, clock: Clock, *, joined: bool) -> Session:
    """A gap that some neighbours of one key keep and others do not; in a join it has to reach the other side."""
    parts = [max(1, clock.unit // divisor) for divisor in ((1,) if joined else (1, 2, 5))]
    gap = random.choice((*parts, min(clock.durations), random.choice(clock.durations)))
    return Session(gap, random.choice((None, None, gap, 3 * gap, max(gap, random.choice(clock.durations)))))


def _draw_window(random: Random, clock: Clock, features: Features, *, joined: bool) -> Sliding | Session:
    sessions = features.sessions and (features.session_joins or not joined)
    if sessions and random.random() < 0.3:
        return draw_session(random, clock, joined=joined)
    return draw_sliding(random, clock, features)


def _spark_has(window: Sliding | Session) -> bool:
    """Whether Spark's window functions can express it: they have no windows with gaps between them, nor a longest
    session."""
    return window.longest is None if isinstance(window, Session) else window.slide <= window.size


def _draw_style(random: Random, *, joined: bool) -> Style:
    return Style(
        predicates_in_on=random.random() < 0.3,
        unqualified=not joined and random.random() < 0.5,
        star=False,
        aliased=random.random() < 0.3,
    )


def draw_group_keys(random: Random, streams: tuple[Stream, ...], world: World) -> tuple[Scalar, ...]:
    """None to three, most often the column that all streams share."""
    all_columns = [column for side, stream in enumerate(streams) for column in columns_of(side, stream)]
    shared = [column for column in all_columns if column.name == "c0"]
    drawn = [
        _draw_expression(random, random.choice(shared if random.random() < 0.6 else all_columns), world)
        for _ in range(random.choice((0, 1, 1, 1, 1, 2, 2, 3)))
    ]
    return tuple(dict.fromkeys(drawn))


def _draw_expression(random: Random, column: Col, world: World) -> Scalar:
    if random.random() < 0.8:
        return column
    return Length(column) if column.type.kind is Kind.STRING else draw_arithmetic(random, column, world)


def with_results(
    random: Random, spec: QuerySpec, streams: tuple[Stream, ...], world: World, features: Features
) -> QuerySpec:
    """The query with a SELECT list and perhaps HAVING."""
    assert spec.grouping is not None
    keys = spec.grouping.keys
    # Without keys it is the calls that make it an aggregation.
    least = 0 if keys and random.random() < 0.1 else 1
    calls = [_draw_call(random, streams, world, features) for _ in range(random.randint(least, 4))]
    outputs: list[OutputColumn] = [*calls]
    outputs += [GroupKey(number) for number in range(len(keys)) if random.random() < 0.85]
    if not outputs or random.random() < 0.7:
        outputs += [WindowEdge(edge) for edge in random.choice((("window_start",), ("window_start", "window_end")))]
    random.shuffle(outputs)
    having = None
    if random.random() < 0.35:
        spare = [_draw_call(random, streams, world, features) for _ in range(2)]
        exact = [call for call in (*calls, *spare, _ROWS) if _is_exact(call)]
        having = _draw_having(random, random.choice(exact), world)
    return replace(spec, outputs=tuple(outputs), grouping=replace(spec.grouping, having=having))


def _draw_call(random: Random, streams: tuple[Stream, ...], world: World, features: Features) -> Call:
    sides = [columns_of(side, stream) for side, stream in enumerate(streams)]
    if len(sides) == 2 and random.random() < 0.25:
        return draw_product(random, sides[0], sides[1], world)
    function = random.choice((*_FUNCTIONS, "approx_distinct") if features.sketches else _FUNCTIONS)
    candidates = [column for side in sides for column in side if _takes(function, column.type.kind, world)]
    if not candidates or (function == "count" and random.random() < 0.5):
        return _ROWS
    of = _draw_expression(random, random.choice(candidates), world)
    return Call(function, of, _result_type(function, type_of(of)))


def _takes(function: str, kind: Kind, world: World) -> bool:
    """Whether a function is defined for a type, and its result does not hang on the order of additions."""
    match function:
        case "sum" | "avg":
            return kind in _NUMBERS and (kind is not Kind.BIGINT or world.is_small(kind))
        case "stddev":
            return kind in (Kind.INT, Kind.DOUBLE) or (kind in _NUMBERS and world.is_small(kind))
        case _:
            return True


def _result_type(function: str, of: DataType) -> DataType:
    match function:
        case "min" | "max":
            return of
        case "sum" | "avg" if of.kind is Kind.DECIMAL:
            return _SUM_OF_DECIMALS if function == "sum" else _MEAN_OF_DECIMALS
        case "sum" if of.kind is not Kind.DOUBLE:
            return BIGINT
        case "sum" | "avg" | "stddev":
            return DOUBLE
        case _:
            return BIGINT


def draw_product(random: Random, left: Sequence[Col], right: Sequence[Col], world: World) -> Call:
    """SUM(l.x * r.y) of small finite numbers, or COUNT(*) where there are none."""
    candidates = [
        (first, second)
        for first in left
        for second in right
        if {first.type.kind, second.type.kind} <= set(_NUMBERS)
        and {first.type.kind, second.type.kind} != {Kind.DECIMAL, Kind.DOUBLE}
        and world.is_small(first.type.kind)
        and world.is_small(second.type.kind)
    ]
    if not candidates:
        return _ROWS
    first, second = random.choice(candidates)
    return Call("sum", Product(first, second), _sum_of_products(first.type, second.type))


def _sum_of_products(first: DataType, second: DataType) -> DataType:
    """Spark's type: a product of decimals has all digits of both and one more, a sum ten more, but never above 38."""
    kinds = {first.kind, second.kind}
    if Kind.DOUBLE in kinds or Kind.DECIMAL not in kinds:
        return DOUBLE if Kind.DOUBLE in kinds else BIGINT
    digits = {Kind.INT: 10, Kind.BIGINT: 20, Kind.DECIMAL: 10}
    precision = digits[first.kind] + digits[second.kind] + 1
    return DataType(Kind.DECIMAL, min(precision + 10, 38), first.scale + second.scale)


def _is_exact(call: Call) -> bool:
    """Whether a comparison with its value has one answer, however it was added up."""
    match call.function:
        case "count" | "distinct" | "min" | "max":
            return True
        case "sum":
            return call.type.kind is not Kind.DOUBLE
        case "avg":
            return not isinstance(call.of, Product | None) and type_of(call.of).kind in _INTEGERS
        case _:
            return False


def _draw_having(random: Random, call: Call, world: World) -> Having:
    return Having(call, draw_comparison(random), _draw_constant(random, call, world))


def _draw_constant(random: Random, call: Call, world: World) -> Lit:
    match call.function:
        case "min" | "max" if not isinstance(call.of, Arith | Length):
            domain = [value for value in world.domains[call.type.kind] if value != -(2**63)]
            return Lit(random.choice(domain), call.type)
        case "min" | "max":
            return Lit(random.randint(-3, 6), INT)
        case "avg":
            return Lit(random.randint(-4, 10) / 2, DOUBLE)
        case "sum" if call.type.kind is Kind.DECIMAL:
            return Lit(Decimal(random.randint(-300, 1000)).scaleb(-2), DataType(Kind.DECIMAL, 10, 2))
        case "sum":
            return Lit(random.randint(-5, 20), BIGINT)
        case _:
            return Lit(random.randint(0, 5), BIGINT)
