"""Some rows of a workload, and what queries give over them: in weft's own stages without Spark, and in DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from tests.support.harness import CoreHarness, open_harness
from weft.plan.stream import FileSource, Format, Stream
from weft.sql import parse_schema
from weft_bench.data import START
from weft_bench.workloads.model import Dialect, QuerySpec, StreamSpec, Workload

Row = tuple[object, ...]
_MICROS = 1_000_000
ARROW = {
    "timestamp": pa.timestamp("us", "UTC"),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
}


def declared(workload: Workload) -> dict[str, Stream]:
    """The workload's streams as weft declares them."""
    return {
        each.name: Stream(
            name=each.name,
            schema=parse_schema(", ".join(f"{name} {kind}" for name, kind in each.columns.items())),
            time="ts",
            lateness=timedelta(0),
            retain=None,
            source=FileSource("nowhere", Format.PARQUET),
        )
        for each in workload.streams
    }


def rows_of(workload: Workload, seconds: float) -> dict[str, pa.Table]:
    """The first event-seconds of all streams, event times evenly spread."""
    return {each.name: _table(each, workload.rows_per_second, seconds) for each in workload.streams}


def _table(stream: StreamSpec, rows_per_second: int, seconds: float) -> pa.Table:
    density = rows_per_second * stream.share
    numbers = np.arange(int(density * seconds))
    times = int(START.timestamp()) * _MICROS + (numbers * _MICROS / density).astype(np.int64)
    columns = stream.make(np.random.default_rng(1), numbers)
    return pa.table({"ts": pa.array(times, ARROW["timestamp"]), **columns})


def in_weft(
    workload: Workload, queries: tuple[QuerySpec, ...], tables: Mapping[str, pa.Table], path: Path
) -> dict[str, Counter[Row]]:
    """The rows of each query, the streams read in three batches."""
    harness: CoreHarness = open_harness(path, list(declared(workload).values()), partitions=2)
    harness.create_many([(each.texts[Dialect.WEFT], each.name) for each in queries])
    for part in range(3):
        inputs = {}
        for name, table in tables.items():
            begin, end = table.num_rows * part // 3, table.num_rows * (part + 1) // 3
            inputs[name] = table.slice(begin, end - begin).combine_chunks().to_batches()
        harness.batch(inputs)
    return {each.name: Counter(plain(row) for row in harness.results(each.name)) for each in queries}


def in_duckdb(queries: tuple[QuerySpec, ...], tables: Mapping[str, pa.Table]) -> dict[str, Counter[Row]]:
    """The rows of each query over whole streams."""
    with duckdb.connect(config={"threads": 1}) as database:
        for name, table in tables.items():
            database.register(name, table)
        return {
            each.name: Counter(plain(row) for row in database.execute(each.texts[Dialect.DUCKDB]).fetchall())
            for each in queries
        }


def plain(row: Row) -> Row:
    """A row whose values can be compared: moments in UTC, floating numbers to nine digits."""
    return tuple(_plain(value) for value in row)


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        case float():
            return float(f"{value:.9g}")
        case _:
            return value
