"""The rows of the residents with sinks, compared with DuckDB over all rows that were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.soak.queries import RESIDENTS, Resident
from tests.soak.streams import LATENESS_SECONDS


@dataclass(frozen=True, slots=True)
class Compared:
    """How the rows of a query compare with those that DuckDB has found."""

    query: str
    rows: int
    missing: int
    surplus: int
    followed: int | None
    """Rows that a follower got; None if nobody followed it."""

    @property
    def agrees(self) -> bool:
        """Equal as multisets, and the follower had as many."""
        return not self.missing and not self.surplus and self.followed in (None, self.rows)

    def __str__(self) -> str:
        rest = "" if self.followed is None else f"; {self.followed:,} rows to a follower"
        wrong = "" if self.agrees else f" **differ: {self.missing:,} are missing, {self.surplus:,} are too many**"
        return f"{self.query}: {self.rows:,} rows in the sink{rest}{wrong}"


def compare(tables: Mapping[str, pa.Table], out: Path, followed: Mapping[str, int]) -> list[Compared]:
    """Compare every resident that has a text for DuckDB; `followed` are rows that followers got, by query."""
    database = duckdb.connect()
    try:
        database.execute("SET enable_progress_bar = false")
        database.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            database.register("given", table)
            database.execute(f"CREATE TABLE {name} AS SELECT *, epoch_us(ts) AS t FROM given")
            database.unregister("given")
        return [_compare(database, each, out, followed) for each in RESIDENTS if each.alone]
    finally:
        database.close()


def _compare(database: duckdb.DuckDBPyConnection, query: Resident, out: Path, followed: Mapping[str, int]) -> Compared:
    until = _watermark(database, query)
    database.execute(f"CREATE OR REPLACE TABLE alone AS {query.alone.replace('{until}', str(until))}")
    (folder,) = (out / query.tenant).glob(f"*{query.name}-q*")
    files = sorted(str(path) for path in folder.glob("part-*.parquet"))
    database.execute("CREATE OR REPLACE TABLE delivered AS FROM alone LIMIT 0")
    if files:
        database.execute("INSERT INTO delivered SELECT * FROM read_parquet(?)", [files])
    return Compared(
        query=query.name,
        rows=_count(database, "FROM delivered"),
        missing=_count(database, "FROM alone EXCEPT ALL FROM delivered"),
        surplus=_count(database, "FROM delivered EXCEPT ALL FROM alone"),
        followed=followed.get(query.name),
    )


def _watermark(database: duckdb.DuckDBPyConnection, query: Resident) -> int:
    """Of the one stream of an aggregate; windows that end later have not been reported."""
    stream = query.sql.split(" FROM ")[1].split(" ")[0]
    ((newest,),) = database.execute(f"SELECT max(t) FROM {stream}").fetchall()
    return int(newest) - LATENESS_SECONDS * 1_000_000


def _count(database: duckdb.DuckDBPyConnection, sql: str) -> int:
    ((found,),) = database.execute(f"SELECT count(*) FROM ({sql})").fetchall()
    return int(found)
