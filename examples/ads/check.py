"""The check at the end of the demo: DuckDB runs a query alone over the generated files and must get weft's rows.

The check uses no code of weft, only its contract: a query sees the batches from its creation to its end, without late
rows and rows older than `complete_from`, and does not report windows that begin before `complete_from`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from examples.ads.generate import LATENESS_SECONDS
from examples.ads.workload import DemoQuery

_LOAD = f"""
    CREATE TABLE {{stream}} AS
    WITH input AS (
        SELECT files.batch AS "_batch", epoch_us(ts) AS "_t", file.* EXCLUDE (filename)
        FROM read_parquet($paths, filename = true) AS file JOIN files ON file.filename = files.path
    ),
    watermark AS (
        SELECT "_batch" AS batch, max(max("_t")) OVER (ORDER BY "_batch" ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW)
            - {LATENESS_SECONDS * 1_000_000} AS t FROM input GROUP BY "_batch"
    )
    SELECT input.*, coalesce(input."_t" < watermark.t, false) AS "_late"
    FROM input JOIN watermark ON input."_batch" = watermark.batch
"""


@dataclass(frozen=True, slots=True)
class Life:
    """The life of a query: it saw the batches `first` to `ended` - 1, and of them the rows from `start` (in µs) on."""

    first: int
    ended: int | None
    start: int | None

    def saw(self, batch: int) -> bool:
        """Return whether the query saw the rows of a batch."""
        return self.first <= batch and (self.ended is None or batch < self.ended)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of weft's rows of a query with DuckDB's."""

    query: DemoQuery
    rows: int
    expected: int
    missing: int
    surplus: int
    start_agrees: bool

    @property
    def agrees(self) -> bool:
        """Whether the rows are equal as multisets, and the query is complete from the time of the contract on."""
        return self.missing == 0 and self.surplus == 0 and self.start_agrees

    def __str__(self) -> str:
        start = "" if self.start_agrees else ", complete_from differs"
        wrong = "" if self.agrees else f"; {self.missing:,} missing, {self.surplus:,} too many{start}"
        counts = f"{self.query.name}: {self.rows:,} rows, DuckDB alone {self.expected:,}"
        return f"  {'✓' if self.agrees else '✗'} {counts}{wrong}\n    {self.query.sql}"


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """Return a sentence that says whether the queries agree."""
    wrong = sum(not verdict.agrees for verdict in verdicts)
    if not verdicts:
        return "no query has results yet, so there is nothing to compare"
    if wrong:
        return f"{wrong} of {len(verdicts)} queries do NOT agree with DuckDB running each alone"
    agreeing = "1 random query agrees" if len(verdicts) == 1 else f"{len(verdicts)} random queries agree"
    return f"{agreeing} row for row with DuckDB running each alone"


class Judge:
    """A DuckDB database with the generated files, in which each row has its batch and whether it was late."""

    def __init__(self, batch_of: Mapping[str, Mapping[Path, int]]) -> None:
        self._database = duckdb.connect()
        self._database.execute("SET enable_progress_bar = false")
        for stream, batches in batch_of.items():
            paths = [str(path) for path in batches]
            if paths:
                self._database.register("files", pa.table({"path": paths, "batch": list(batches.values())}))
                self._database.execute(_LOAD.format(stream=stream), {"paths": paths})

    def start(self, query: DemoQuery, first: int) -> int | None:
        """Return the event time from which a query that was created just before batch `first` must be complete."""
        seen = " UNION ALL ".join(f'SELECT "_t" FROM {stream} WHERE "_batch" < {first}' for stream in query.streams)
        return self._value(f'SELECT max("_t") + 1 FROM ({seen})')

    def compare(self, query: DemoQuery, life: Life, rows: pa.Table) -> Verdict:
        """Run the query alone and compare its rows with `rows` as multisets."""
        start = self.start(query, life.first)
        self._database.execute(f"CREATE OR REPLACE TABLE alone AS {to_duckdb(query, replace(life, start=start))}")
        self._database.register("weft", rows)
        sources = ("FROM alone", "FROM alone EXCEPT ALL FROM weft", "FROM weft EXCEPT ALL FROM alone")
        expected, missing, surplus = (self._value(f"SELECT count(*) FROM ({sql})") or 0 for sql in sources)
        return Verdict(query, rows.num_rows, expected, missing, surplus, start_agrees=start == life.start)

    def _value(self, sql: str) -> int | None:
        ((value,),) = self._database.execute(sql).fetchall()
        return None if value is None else int(value)


def to_duckdb(query: DemoQuery, life: Life) -> str:
    """Return the query as SQL for DuckDB, restricted to the batches and rows of its life."""
    relations = [f"{stream} AS {alias}" for stream, alias in query.relations]
    conditions = [*query.conditions, *([query.join_condition] if query.keys else [])]
    times = [f"{alias}._t" for _, alias in query.relations]
    size, slide = query.size * 1_000_000, query.slide * 1_000_000
    for _, alias in query.relations:
        conditions += [f"NOT {alias}._late", f"{alias}._batch >= {life.first}"]
        conditions += [] if life.ended is None else [f"{alias}._batch < {life.ended}"]
        conditions += [] if life.start is None else [f"{alias}._t >= {life.start}"]
    if slide:  # every window that can contain the row of the first relation
        number = f"unnest(generate_series(({times[0]} - {size}) // {slide}, {times[0]} // {slide})) AS n"
        opens_and_closes = f"n * {slide} AS opens, n * {slide} + {size} AS closes"
        relations.append(f"LATERAL (SELECT {opens_and_closes} FROM (SELECT {number})) AS w")
        conditions += [f"{time} >= w.opens AND {time} < w.closes" for time in times]
        conditions += [] if life.start is None else [f"w.opens >= {life.start}"]
    elif size:
        conditions += [f"{time} > greatest({', '.join(times)}) - {size}" for time in times]
    outputs = query.outputs.replace("window_start", "make_timestamptz(w.opens)")
    outputs = outputs.replace("window_end", "make_timestamptz(w.closes)")
    return f"SELECT {outputs} FROM {', '.join(relations)} WHERE {' AND '.join(conditions)}"
