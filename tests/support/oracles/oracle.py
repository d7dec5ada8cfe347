"""The oracle: DuckDB runs one query alone over the whole input.

It shares nothing with weft and knows nothing of batches beyond two numbers per row (when it came, whether it was
late) and three per query (from which batch on it lived, until which, and the watermark at its end).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import count

import duckdb
import pyarrow as pa

from tests.support.generators.data import from_micros, to_batch
from tests.support.generators.workload import Batch, Schedule
from tests.support.oracles.duckdb_text import Life, to_duckdb
from tests.support.spec import QuerySpec, WindowEdge
from weft.plan.stream import Stream

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
        self._lateness = {stream.name: _micros(stream) for stream in schedule.streams}
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
        self._database.execute(_LOAD.format(name=stream.name, time=stream.time, lateness=_micros(stream)))
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

    def watermark(self, query: QuerySpec, end: int) -> int | None:
        """The smallest of its streams' before batch `end`, in microseconds; None while one of them has had no row."""
        tops = {name: [top for batch, top in self._tops[name] if batch < end] for name in query.streams}
        return min(max(seen) - self._lateness[name] for name, seen in tops.items()) if all(tops.values()) else None

    def rows(self, query: QuerySpec, lifetime: Lifetime, *, most: int | None = None) -> list[Row]:
        """The query's result, or `most` rows of it, in no particular order."""
        start, watermark = self._start_micros(query, lifetime.first), self.watermark(query, lifetime.end)
        sql = to_duckdb(query, Life(lifetime.first, lifetime.end, start, watermark))
        rows = self._database.execute(sql if most is None else f"{sql} LIMIT {most}").fetchall()
        edges = [index for index, output in enumerate(query.outputs) if isinstance(output, WindowEdge)]
        return [_with_instants(row, edges) for row in rows] if edges else rows


def _micros(stream: Stream) -> int:
    return round(stream.lateness.total_seconds() * 1_000_000)


def _with_instants(row: Row, edges: Sequence[int]) -> Row:
    """Window edges leave DuckDB as microseconds."""
    values = list(row)
    for index in edges:
        micros = values[index]
        assert isinstance(micros, int)
        values[index] = from_micros(micros)
    return tuple(values)
