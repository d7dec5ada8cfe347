"""Hand-made schedules and queries, short to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from tests.support.generators.data import DECIMAL, Row, from_micros, to_micros
from tests.support.generators.workload import Batch, Schedule
from tests.support.oracles.oracle import Lifetime, Oracle
from tests.support.spec import (
    Call,
    Col,
    Grouping,
    GroupKey,
    Having,
    Key,
    Lit,
    OutputColumn,
    Predicate,
    Product,
    QuerySpec,
    RelationSpec,
    Scalar,
    Style,
    Value,
    Window,
    WindowEdge,
)
from weft.plan.stream import FrameSource, Stream
from weft.plan.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, DataType, Field, Schema

PLAIN = Style(predicates_in_on=False, unqualified=False, star=False, aliased=False)
COLUMNS = {"ts": TIMESTAMP, "k": BIGINT, "i": INT, "d": DECIMAL, "x": DOUBLE, "s": STRING, "b": BOOLEAN, "n": INT}


def stream(name: str, lateness: int = 10**9) -> Stream:
    """A stream of all `COLUMNS`; lateness in microseconds."""
    schema = Schema(tuple(Field(column, type_) for column, type_ in COLUMNS.items()))
    return Stream(name, schema, "ts", timedelta(microseconds=lateness), None, FrameSource())


def row(time: int | None, n: int, **values: Value) -> Row:
    """A row at `time` microseconds, told apart by `n`; the columns not given are 0, false or empty."""
    given: dict[str, Value] = {"k": 0, "i": 0, "d": Decimal(0), "x": 0.0, "s": "", "b": False, **values, "n": n}
    return (None if time is None else from_micros(time), *(given[name] for name in COLUMNS if name != "ts"))


def col(side: int, name: str) -> Col:
    """A column of `COLUMNS`."""
    return Col(side, name, COLUMNS[name])


def lit(value: Value, type_: DataType) -> Lit:
    """A constant."""
    return Lit(value, type_)


def select(window: Window | None = None, predicate: Predicate | None = None, *, edges: bool = False) -> QuerySpec:
    """`SELECT n` from stream l, with the edges of its windows if asked for."""
    outputs: list[OutputColumn] = [col(0, "n")]
    if edges:
        outputs += [WindowEdge("window_start"), WindowEdge("window_end")]
    return QuerySpec("q", (RelationSpec("l", "ts", None, window, predicate),), (), None, tuple(outputs), PLAIN)


def join(first: Window | None, second: Window | None, *, on: tuple[Scalar, Scalar] | None = None) -> QuerySpec:
    """The `n` of both sides of a join of streams l and r, on k unless told."""
    relations = (RelationSpec("l", "ts", None, first, None), RelationSpec("r", "ts", None, second, None))
    left, right = on or (col(0, "k"), col(1, "k"))
    return QuerySpec("q", relations, (Key(left, right, swapped=False),), None, (col(0, "n"), col(1, "n")), PLAIN)


def self_join(window: Window) -> QuerySpec:
    """As `join`, of stream l with itself."""
    relations = (RelationSpec("l", "ts", "x", window, None), RelationSpec("l", "ts", "y", window, None))
    return replace(join(window, window), relations=relations)


def call(function: str, of: Scalar | Product | None = None, type_: DataType = BIGINT) -> Call:
    """An aggregate."""
    return Call(function, of, type_)


def aggregate(
    window: Window, *calls: Call, by: tuple[Scalar, ...] = (), having: Having | None = None, joined: bool = False
) -> QuerySpec:
    """Keys, calls (COUNT(*) if none is given) and both edges, from stream l or its join with r on k."""
    plain = join(window, window) if joined else select(window)
    keys = tuple(GroupKey(number) for number in range(len(by)))
    edges = (WindowEdge("window_start"), WindowEdge("window_end"))
    outputs: tuple[OutputColumn, ...] = (*keys, *(calls or (call("count"),)), *edges)
    return replace(plain, outputs=outputs, grouping=Grouping(by, having, in_group_by=False))


def windows(rows: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Rows with instants as microseconds, sorted."""
    plain = [tuple(to_micros(value) if isinstance(value, datetime) else value for value in found) for found in rows]
    return sorted(plain, key=repr)


def schedule(*batches: Mapping[str, Sequence[Row]], lateness: int = 10**9) -> Schedule:
    """Batches over the streams l and r, each of one piece."""
    steps = tuple(Batch({name: (tuple(rows),) for name, rows in batch.items()}) for batch in batches)
    return Schedule(0, (stream("l", lateness), stream("r", lateness)), 1, steps)


def alone(query: QuerySpec, given: Schedule, *, first: int = 0, end: int | None = None) -> list[tuple[object, ...]]:
    """The oracle's rows, sorted."""
    with Oracle(given) as oracle:
        rows = oracle.rows(query, Lifetime(first, len(given.steps) if end is None else end))
    return sorted(rows, key=repr)
