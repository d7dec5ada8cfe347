"""Random streams and rows: out of order, late, skewed, duplicated, with NULLs, and on the very edges of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random

import pyarrow as pa

from tests.support.spec import Value
from weft.plan.stream import FrameSource, Stream
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Field, Kind, Schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DECIMAL = DataType(Kind.DECIMAL, 10, 2)
TYPES = (BIGINT, INT, STRING, DECIMAL, DATE, TIMESTAMP, BOOLEAN, DOUBLE)

Row = tuple[Value, ...]

_ARROW = {
    Kind.BIGINT: pa.int64(),
    Kind.INT: pa.int32(),
    Kind.STRING: pa.string(),
    Kind.DECIMAL: pa.decimal128(10, 2),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.BOOLEAN: pa.bool_(),
    Kind.DOUBLE: pa.float64(),
}
_STRINGS = ("", "a", "b", "A", "ab", "a%c", "a_c", "é", "日本", "𝄞x", "it's", " a", "a ", "back\\slash", "b" * 40)
_DOUBLES = (0.0, -0.0, 1.0, 2.0, -1.5, 0.1, 3.25, 1e10, float("nan"), float("inf"), float("-inf"))
_DECIMALS = ("0.00", "1.00", "2.00", "-1.50", "0.10", "3.25", "99999999.99", "-99999999.99")


def from_micros(micros: int) -> datetime:
    """The instant this many microseconds after the epoch."""
    return EPOCH + timedelta(microseconds=micros)


def to_micros(instant: datetime) -> int:
    """Microseconds since the epoch, exactly."""
    return (instant - EPOCH) // MICROSECOND


@dataclass(frozen=True, slots=True)
class Clock:
    """Where and how densely event time runs in one schedule, in microseconds; `durations` are for windows."""

    base: int
    unit: int
    span: int
    durations: tuple[int, ...]

    def near_edge(self, random: Random, micros: int) -> int:
        """The closest multiple of some duration, or one tick beside it."""
        step = random.choice(self.durations)
        return micros // step * step + random.choice((-1, 0, 0, 0, 1))


@dataclass(frozen=True, slots=True)
class World:
    """What all streams of a schedule share, so that their rows can meet: a clock and a small domain per type."""

    clock: Clock
    domains: Mapping[Kind, tuple[Value, ...]]

    def is_small(self, kind: Kind) -> bool:
        """Whether arithmetic on this type's domain can neither overflow nor lose small values beside large ones."""
        return all(isinstance(value, int | float | Decimal) and -1000 < value < 1000 for value in self.domains[kind])


def draw_world(random: Random) -> World:
    """A clock and domains."""
    clock = _draw_clock(random)
    return World(clock, {type_.kind: _draw_domain(random, type_.kind, clock) for type_ in TYPES})


def _draw_clock(random: Random) -> Clock:
    unit = random.choice((1, 10, 1000, 1_000_000, 1_000_000, 1_000_000, 60_000_000))
    span = unit * random.choice((3, 10, 20, 40))
    base = random.choice((0, -span // 2, -span, to_micros(datetime(2024, 2, 28, 23, 59, 50, tzinfo=UTC)), -(10**15)))
    factors = random.sample((1, 2, 3, 4, 5, 6, 8, 10), 4)
    odd = random.choice((0, 0, 0, 1, unit // 2 + 1))
    return Clock(base, unit, span, (*(unit * factor for factor in factors), unit * random.randint(1, 5) + odd))


def _draw_domain(random: Random, kind: Kind, clock: Clock) -> tuple[Value, ...]:
    values = _all_values(random, kind, clock)
    return tuple(random.sample(values, min(len(values), random.choice((2, 3, 3, 4, 6)))))


def _all_values(random: Random, kind: Kind, clock: Clock) -> Sequence[Value]:
    extremes = random.random() < 0.15
    match kind:
        case Kind.BIGINT:
            return [*range(-3, 7), *((2**63 - 1, -(2**63), 2**53 + 1, 2**32) if extremes else ())]
        case Kind.INT:
            return [*range(-3, 7), *((2**31 - 1, -(2**31)) if extremes else ())]
        case Kind.STRING:
            return _STRINGS
        case Kind.DECIMAL:
            return [Decimal(text) for text in (_DECIMALS if extremes else _DECIMALS[:6])]
        case Kind.DATE:
            return [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(2024, 3, 1), date(1900, 3, 1)]
        case Kind.TIMESTAMP:
            return [from_micros(clock.near_edge(random, clock.base + random.randint(0, clock.span))) for _ in range(8)]
        case Kind.BOOLEAN:
            return [True, False]
        case Kind.DOUBLE:
            return _DOUBLES
        case _:
            raise ValueError(f"no values for {kind}")


def draw_streams(random: Random, world: World) -> tuple[Stream, ...]:
    """One to three streams; the first columns of all have one type, so any two can be joined."""
    shared = [random.choice((BIGINT, BIGINT, INT, STRING, *TYPES)), *random.sample(TYPES, 2)]
    lateness = (0, 0, 1, world.clock.unit, 2 * world.clock.unit, 5 * world.clock.unit)
    streams = []
    for name in ("s0", "s1", "s2")[: random.choice((1, 2, 2, 2, 3))]:
        types = [*shared[: random.randint(1, 3)], *random.choices(TYPES, k=random.randint(0, 3))]
        if types[0].kind is Kind.BIGINT and random.random() < 0.2:
            types[0] = INT
        fields = [Field(f"c{index}", type_) for index, type_ in enumerate(types)]
        fields.insert(random.randint(0, len(fields)), Field("ts", TIMESTAMP))
        bound = timedelta(microseconds=random.choice(lateness))
        streams.append(Stream(name, Schema(tuple(fields)), "ts", bound, None, FrameSource()))
    return tuple(streams)


def draw_rows(random: Random, stream: Stream, world: World, *, count: int) -> list[Row]:
    """Rows in order of arrival: event time moves on, with disorder, stragglers, duplicates and NULLs."""
    null_share = {field.name: random.choice((0.0, 0.0, 0.1, 0.3)) for field in stream.schema}
    null_share[stream.time] = random.choice((0.0, 0.02))
    skew = random.choice((1, 1, 3))
    times = _draw_times(random, stream, world.clock, count)
    rows: list[Row] = []
    for time in times:
        if rows and random.random() < 0.05:
            rows.append(random.choice(rows[-5:]))
            continue
        row: list[Value] = []
        for field in stream.schema:
            domain = world.domains[field.type.kind]
            drawn = time if field.name == stream.time else domain[int(len(domain) * random.random() ** skew)]
            row.append(None if random.random() < null_share[field.name] else drawn)
        rows.append(tuple(row))
    return rows


def draw_last_row(random: Random, stream: Stream, world: World) -> Row:
    """A row so far in the future that every window with earlier rows ends before it."""
    (row,) = draw_rows(random, stream, world, count=1)
    later = world.clock.base + 3 * (world.clock.span + 10 * max(world.clock.durations)) + random.randint(0, 3)
    times = {stream.time: from_micros(later) + stream.lateness}
    return tuple(times.get(field.name, value) for field, value in zip(stream.schema, row, strict=True))


def _draw_times(random: Random, stream: Stream, clock: Clock, count: int) -> list[datetime]:
    lateness = stream.lateness // MICROSECOND
    disorder = random.choice((0, lateness // 2, lateness, 2 * lateness + clock.unit))
    on_edges = random.choice((0.0, 0.4, 0.9))
    start = clock.base + random.choice((0, 0, 0, clock.unit, clock.span // 3))
    times = []
    for index in range(count):
        time = start + clock.span * index // count - random.randint(0, disorder)
        if random.random() < 0.04:
            time -= random.randint(0, 3 * lateness + 2 * clock.unit)
        times.append(from_micros(clock.near_edge(random, time) if random.random() < on_edges else time))
    return times


def to_batch(stream: Stream, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as Arrow data of the stream's schema."""
    columns = list(zip(*rows, strict=True)) or [()] * len(stream.schema.fields)
    arrays = [
        pa.array(column, _ARROW[field.type.kind]) for column, field in zip(columns, stream.schema.fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(stream.schema.names()))
