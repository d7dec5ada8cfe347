"""Small streams and engines for the tests on real Spark."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyspark.sql import SparkSession

import weft

BASE = datetime(2024, 3, 1, 12, 0, 0, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int32()), ("name", pa.string())])
DDL = "ts timestamp, k bigint, v int, name string"
_PATIENCE = 120.0
_LONG_AGO = time.time() - 86_400
_numbers = count()

Rows = list[tuple[Any, ...]]


def at(seconds: float) -> datetime:
    """The instant so many seconds after the beginning of test time."""
    return BASE + timedelta(seconds=seconds)


def events(
    *rows: tuple[float | None, int | None, int | None] | tuple[float | None, int | None, int | None, str | None],
) -> pa.Table:
    """Rows (seconds, k, v[, name]) as a table of `SCHEMA`."""
    columns = list(zip(*((*row, None)[:4] for row in rows), strict=True)) or [()] * 4
    times = [None if seconds is None else at(seconds) for seconds in columns[0]]
    return pa.table([pa.array(values, f.type) for values, f in zip((times, *columns[1:]), SCHEMA, strict=True)], SCHEMA)


def write(path: Path, table: pa.Table) -> None:
    """One file in the format its name says."""
    match path.suffix:
        case ".parquet":
            pa.parquet.write_table(table, path)
        case ".arrow":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        case ".arrows":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
        case ".csv":
            pa.csv.write_csv(table, path)
        case ".json":
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
        case suffix:
            raise ValueError(f"no format {suffix}")


def put(folder: Path, table: pa.Table, name: str = "") -> Path:
    """A new file of a stream: written aside and renamed, as `weft.files` asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / (name or f"{next(_numbers):06d}.parquet")
    hidden = folder / f".{next(_numbers)}{target.suffix}"
    write(hidden, table)
    os.utime(hidden, (_LONG_AGO + next(_numbers),) * 2)  # Spark takes files in this order, and its clock is coarse
    return hidden.rename(target)


def wait_for(condition: Callable[[], object], what: str, seconds: float = _PATIENCE) -> None:
    """Wait until something holds; fail with its name otherwise."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
        time.sleep(0.02)


def rows(query: weft.Query, *, partial: bool = False) -> Rows:
    """A query's committed rows as sorted tuples; timestamps are aware."""
    table = query.results(partial=partial).toArrow()
    return ordered(zip(*(column.to_pylist() for column in table.columns), strict=True))


def ordered(found: Iterable[Sequence[Any]]) -> Rows:
    """Rows in one fixed order, so that two multisets can be compared and a difference can be read."""
    return sorted((tuple(_plain(value) for value in row) for row in found), key=repr)


def _plain(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


def alone(tables: Mapping[str, pa.Table | Sequence[pa.Table]], sql: str) -> Rows:
    """What DuckDB says a query returns over whole tables; windows have to be spelt out as conditions on times."""
    with duckdb.connect(config={"threads": 1}) as database:
        for name, table in tables.items():
            database.register(name, table if isinstance(table, pa.Table) else pa.concat_tables(table))
        return ordered(database.execute(sql).fetchall())


def within(left: str, right: str, seconds: float) -> str:
    """The condition of `[RANGE seconds]` on both of two relations, in DuckDB's SQL."""
    return f"abs(epoch_us({left}.ts) - epoch_us({right}.ts)) < {round(seconds * 1_000_000)}"


def is_multiset(found: Iterable[Sequence[Any]], expected: Iterable[Sequence[Any]]) -> str:
    """What two multisets of rows differ in; empty if nothing."""
    got, want = Counter(map(tuple, found)), Counter(map(tuple, expected))
    missing, extra = want - got, got - want
    if not missing and not extra:
        return ""
    return (
        f"{missing.total()} missing, such as {list(missing)[:3]}; {extra.total()} too many, such as {list(extra)[:3]}"
    )


@dataclass(slots=True)
class Place:
    """A directory with streams of files and one engine at a time over them."""

    root: Path
    spark: SparkSession
    engines: list[weft.Engine] = field(default_factory=list)

    @property
    def state(self) -> Path:
        """Where the engine keeps everything."""
        return self.root / "state"

    def engine(self, **options: Any) -> weft.Engine:
        """A new engine on the state directory; the one before is stopped."""
        self.close()
        self.engines.append(weft.Engine(path=self.state, spark=self.spark, **{"partitions": 2, **options}))
        return self.engines[-1]

    def streams(self, engine: weft.Engine, *names: str, lateness: str = "0 seconds", **options: Any) -> None:
        """Declare streams of the common schema over folders of their names."""
        for name in names:
            folder = self.root / name
            folder.mkdir(exist_ok=True)
            engine.stream(name, weft.files(folder, schema=DDL, **options), time="ts", lateness=lateness)

    def put(self, stream: str, *rows: Any, name: str = "") -> pa.Table:
        """New rows of a stream, as one file."""
        table = events(*rows)
        put(self.root / stream, table, name)
        return table

    def data_files(self) -> list[str]:
        """Names of all bucket and segment files there are."""
        return sorted(str(path.relative_to(self.state / "data")) for path in (self.state / "data").rglob("*.arrow"))

    def close(self) -> None:
        """Stop the engine that is open, if there is one."""
        while self.engines:
            self.engines.pop().stop()


def steps(engine: weft.Engine) -> list[weft.BatchSummary]:
    """Run batches until nothing is new."""
    found = []
    while (summary := engine.step()) is not None:
        found.append(summary)
    return found


def forget_spark_commit(place: Place, stream: str, number: int) -> None:
    """The checkpoint of a DataFrame stream as a crash between weft's commit and Spark's leaves it."""
    for name in (f"{number}", f".{number}.crc"):
        with suppress(FileNotFoundError):
            os.unlink(place.state / "spark" / stream / "commits" / name)
