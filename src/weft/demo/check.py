"""The proof at the end: a query run alone in DuckDB over the generated files gives the rows that weft gave.

Nothing of weft is used here but the contract: a query sees the batches from its creation to its end, of them the rows
that are not late and not older than `complete_from`, and windows that begin before it are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from weft.demo.generate import LATENESS, SCHEMAS
from weft.demo.ledger import Arrival
from weft.demo.workload import DemoQuery, Relation
from weft.plan.window import Range, Sliding

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Life:
    """When a query lived, as weft says: batches first … last − 1, complete from `start` (microseconds) on."""

    first: int
    last: int
    start: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How weft's rows of a query compare with DuckDB's."""

    query: DemoQuery
    rows: int
    expected: int
    missing: int
    surplus: int
    start_agrees: bool

    @property
    def agrees(self) -> bool:
        """Equal as multisets, and complete from where the contract says."""
        return self.missing == 0 and self.surplus == 0 and self.start_agrees


class Judge:
    """The generated files in DuckDB, each row with its batch and whether it was late."""

    def __init__(self, arrivals: Iterable[Arrival], *, lateness: timedelta = LATENESS) -> None:
        import duckdb  # an extra of the demo: the rest of it can be loaded without, and say what is missing

        self._database = duckdb.connect()
        self._database.execute("SET enable_progress_bar = false")
        files: dict[str, dict[Path, int]] = {stream: {} for stream in SCHEMAS}
        for arrival in arrivals:
            files[arrival.file.stream][arrival.file.path] = arrival.batch
        for stream, batches in files.items():
            self._load(stream, batches, lateness // _MICROSECOND)

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _load(self, stream: str, batches: Mapping[Path, int], lateness: int) -> None:
        self._database.register(
            "came",
            pa.table(
                {"path": pa.array(map(str, batches), pa.string()), "batch": pa.array(batches.values(), pa.int64())}
            ),
        )
        paths = ", ".join("'" + str(path).replace("'", "''") + "'" for path in batches)
        self._database.execute(
            f"""
            CREATE TABLE {stream} AS
            WITH input AS (
                SELECT came.batch AS "_batch", epoch_us(ts) AS "_t", file.* EXCLUDE (filename)
                FROM read_parquet([{paths}], filename = true) AS file JOIN came ON file.filename = came.path
            ),
            top AS (SELECT "_batch" AS batch, max("_t") AS t FROM input GROUP BY ALL),
            watermark AS (
                SELECT batch, max(t) OVER (ORDER BY batch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                    - {lateness} AS t FROM top
            )
            SELECT input.*, coalesce(input."_t" < watermark.t, false) AS "_late"
            FROM input JOIN watermark ON input."_batch" = watermark.batch
            """
        )
        self._database.unregister("came")

    def start(self, query: DemoQuery, first: int) -> int | None:
        """From where a query created just before batch `first` must be complete."""
        newest = " UNION ALL ".join(
            f'SELECT "_t" FROM {relation.stream} WHERE "_batch" < {first}' for relation in query.relations
        )
        ((found,),) = self._database.execute(f'SELECT max("_t") + 1 FROM ({newest})').fetchall()
        return None if found is None else int(found)

    def compare(self, query: DemoQuery, life: Life, rows: pa.Table) -> Verdict:
        """Run the query alone and compare with `rows` as multisets."""
        start = self.start(query, life.first)
        alone = to_duckdb(query, Life(life.first, life.last, start))
        self._database.execute(f"CREATE OR REPLACE TABLE alone AS {alone}")
        self._database.register("weft", rows)
        return Verdict(
            query=query,
            rows=rows.num_rows,
            expected=self._count("FROM alone"),
            missing=self._count("FROM alone EXCEPT ALL FROM weft"),
            surplus=self._count("FROM weft EXCEPT ALL FROM alone"),
            start_agrees=start == life.start,
        )

    def _count(self, sql: str) -> int:
        ((found,),) = self._database.execute(f"SELECT count(*) FROM ({sql})").fetchall()
        return int(found)


def to_duckdb(query: DemoQuery, life: Life) -> str:
    """The query alone in DuckDB's SQL."""
    relations = ", ".join(_relation(relation, life) for relation in query.relations)
    conditions = [query.join_condition()] if query.keys else []
    match query.window:
        case Range(size=size):
            newest = f"greatest({', '.join(f'{each.alias}._t' for each in query.relations)})"
            conditions += [f"{each.alias}._t > {newest} - {size // _MICROSECOND}" for each in query.relations]
        case Sliding(size=size, slide=slide):
            relations += f", {_windows(query.relations[0], size // _MICROSECOND, slide // _MICROSECOND)}"
            conditions += [f"{each.alias}._t >= w.opens AND {each.alias}._t < w.closes" for each in query.relations]
            conditions += [] if life.start is None else [f"w.opens >= {life.start}"]
        case None:
            pass
    outputs = ", ".join(_WINDOW_ENDS.get(output, output) for output in query.outputs)
    return f"SELECT {outputs} FROM {relations} WHERE {' AND '.join(conditions) or 'true'}"


_WINDOW_ENDS = {"window_start": "make_timestamptz(w.opens)", "window_end": "make_timestamptz(w.closes)"}


def _relation(relation: Relation, life: Life) -> str:
    conditions = [f'"_batch" >= {life.first}', f'"_batch" < {life.last}', 'NOT "_late"', *relation.conditions]
    if life.start is not None:
        conditions.append(f'"_t" >= {life.start}')
    alias = relation.alias
    return f"(SELECT * FROM {relation.stream} AS {alias} WHERE {' AND '.join(conditions)}) AS {alias}"


def _windows(relation: Relation, size: int, slide: int) -> str:
    """Every window that can hold a row of the relation, found for each row: LATERAL."""
    number = f"unnest(generate_series(({relation.alias}._t - {size}) // {slide}, {relation.alias}._t // {slide}))"
    return f"LATERAL (SELECT n * {slide} AS opens, n * {slide} + {size} AS closes FROM (SELECT {number} AS n)) AS w"
