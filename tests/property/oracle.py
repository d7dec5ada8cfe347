"""The oracle: DuckDB runs one query alone over the whole input.

It shares nothing with weft and knows nothing of batches beyond two numbers per row (when it came, whether it was
late) and two per query (from which batch on it lived, and until which).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import count
from typing import assert_never

import duckdb
import pyarrow as pa

from tests.property.data import from_micros, to_batch
from tests.property.spec import Col, Lit, OutputColumn, QuerySpec, Range, Sliding, Unbounded, WindowEdge
from tests.property.text import Dialect, double_text, predicate_sql, scalar_sql
from tests.property.workload import Batch, Schedule
from weft.plan.stream import Stream
from weft.plan.types import Kind

Row = tuple[object, ...]

# A row is late if its time is below the largest time of all earlier batches minus the lateness.
_LOAD = """
CREATE TABLE "{name}" AS
WITH input AS (SELECT *, epoch_us("{time}") AS "_t" FROM loading WHERE "{time}" IS NOT NULL),
     seen AS (SELECT "_batch" AS batch, max("_t") AS top FROM input GROUP BY ALL)
SELECT input.*, coalesce("_t" < (SELECT max(top) FROM seen WHERE batch < "_batch") - {lateness}, FALSE) AS "_late"
FROM input
"""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A query takes part in batches `first` ≤ b < `end`."""

    first: int
    end: int


_NUMBERS = count()


@cache
def _shared_database() -> duckdb.DuckDBPyConnection:
    """Opening one takes longer than a schedule."""
    return duckdb.connect(config={"threads": 1})


class Oracle:
    """The whole input of one schedule, ready for queries."""

    def __init__(self, schedule: Schedule) -> None:
        self._schema = f"oracle{next(_NUMBERS)}"
        self._database = _shared_database().cursor()
        self._database.execute(f"CREATE SCHEMA {self._schema}; SET schema = '{self._schema}'")
        self._tops: dict[str, list[tuple[int, int]]] = {}
        batches = [step for step in schedule.steps if isinstance(step, Batch)]
        for stream in schedule.streams:
            self._load(stream, batches)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.execute(f"SET schema = 'main'; DROP SCHEMA {self._schema} CASCADE")
        self._database.close()

    def _load(self, stream: Stream, batches: Sequence[Batch]) -> None:
        parts = [tuple(row for piece in batch.input.get(stream.name, ()) for row in piece) for batch in batches]
        table = pa.Table.from_batches([to_batch(stream, [row for part in parts for row in part])])
        numbers = [number for number, part in enumerate(parts) for _ in part]
        self._database.register("loading", table.append_column("_batch", pa.array(numbers, pa.int64())))
        lateness = stream.lateness.total_seconds() * 1_000_000
        self._database.execute(_LOAD.format(name=stream.name, time=stream.time, lateness=round(lateness)))
        self._database.unregister("loading")
        tops = f'SELECT "_batch", max("_t") FROM "{stream.name}" GROUP BY ALL'
        self._tops[stream.name] = self._database.execute(tops).fetchall()

    def start(self, query: QuerySpec, first: int) -> datetime | None:
        """The `complete_from` of a query created just before batch `first`."""
        micros = self._start_micros(query, first)
        return None if micros is None else from_micros(micros)

    def _start_micros(self, query: QuerySpec, first: int) -> int | None:
        seen = [top for stream in query.streams for batch, top in self._tops[stream] if batch < first]
        return max(seen) + 1 if seen else None

    def rows(self, query: QuerySpec, lifetime: Lifetime) -> list[Row]:
        """The query's result, in no particular order."""
        sql = to_duckdb(query, lifetime, self._start_micros(query, lifetime.first))
        rows = self._database.execute(sql).fetchall()
        edges = [index for index, output in enumerate(query.outputs) if isinstance(output, WindowEdge)]
        return [_with_instants(row, edges) for row in rows] if edges else rows


def _with_instants(row: Row, edges: Sequence[int]) -> Row:
    """Window edges leave DuckDB as microseconds."""
    values = list(row)
    for index in edges:
        micros = values[index]
        assert isinstance(micros, int)
        values[index] = from_micros(micros)
    return tuple(values)


def to_duckdb(query: QuerySpec, lifetime: Lifetime, start: int | None) -> str:
    """The query alone in DuckDB's SQL."""
    outputs = ", ".join(_output(output, query) for output in query.outputs)
    relations = ", ".join(_relation(query, side, lifetime, start) for side in range(len(query.relations)))
    conditions = [*_keys(query), *_pair(query)]
    if (window := query.sliding) is not None:
        # One candidate more than needed on either side: the conditions decide, not how DuckDB rounds a division.
        bounds = f"(r0._t - {window.size}) // {window.slide} - 2, r0._t // {window.slide} + 2"
        relations += f", unnest(generate_series({bounds})) AS w(_k)"
        conditions += _in_window(query, window, start)
    return f"SELECT {outputs} FROM {relations} WHERE {' AND '.join(conditions) or 'TRUE'}"


def _output(output: OutputColumn, query: QuerySpec) -> str:
    if isinstance(output, Col):
        return _column(output)
    window = query.sliding
    assert window is not None
    return f"w._k * {window.slide}" + (f" + {window.size}" if output.name == "window_end" else "")


def _relation(query: QuerySpec, side: int, lifetime: Lifetime, start: int | None) -> str:
    relation = query.relations[side]
    conditions = [f"_batch >= {lifetime.first}", f"_batch < {lifetime.end}", "NOT _late"]
    if start is not None:
        conditions.append(f"_t >= {start}")
    if relation.predicate is not None:
        conditions.append(predicate_sql(relation.predicate, Dialect(_plain_column, duckdb_literal, _NULL_SAFE)))
    return f'(SELECT * FROM "{relation.stream}" WHERE {" AND ".join(conditions)}) AS r{side}'


def _keys(query: QuerySpec) -> list[str]:
    dialect = Dialect(_column, duckdb_literal, _NULL_SAFE)
    return [f"{scalar_sql(key.left, dialect)} = {scalar_sql(key.right, dialect)}" for key in query.keys]


def _pair(query: QuerySpec) -> list[str]:
    """What the windows and interval conditions say about the times of two tuples."""
    if len(query.relations) == 1:
        return []
    conditions = []
    for side, relation in enumerate(query.relations):
        match relation.window:
            case Range(size=size):
                conditions.append(f"r{side}._t > greatest(r0._t, r1._t) - {size}")
            case Sliding() | Unbounded() | None:
                pass
            case _:
                assert_never(relation.window)
    if query.interval is not None and query.interval.low is not None:
        conditions.append(f"r0._t - r1._t >= {query.interval.low}")
    if query.interval is not None and query.interval.high is not None:
        conditions.append(f"r0._t - r1._t <= {query.interval.high}")
    return conditions


def _in_window(query: QuerySpec, window: Sliding, start: int | None) -> list[str]:
    conditions = [] if start is None else [f"w._k * {window.slide} >= {start}"]
    for side in range(len(query.relations)):
        conditions.append(f"r{side}._t >= w._k * {window.slide}")
        conditions.append(f"r{side}._t < w._k * {window.slide} + {window.size}")
    return conditions


_NULL_SAFE = "IS NOT DISTINCT FROM"


def _column(column: Col) -> str:
    return f'r{column.relation}."{column.name}"'


def _plain_column(column: Col) -> str:
    return f'"{column.name}"'


def duckdb_literal(literal: Lit) -> str:
    """A constant in DuckDB's syntax."""
    value = literal.value
    if value is None:
        return "NULL"
    match literal.type.kind:
        case Kind.STRING:
            return "'" + str(value).replace("'", "''") + "'"
        case Kind.DOUBLE:
            return double_text(value, f"CAST({value} AS DOUBLE)")
        case Kind.DATE:
            return f"DATE '{value}'"
        case Kind.TIMESTAMP:
            return f"TIMESTAMPTZ '{value}'"
        case _:
            return str(value)
