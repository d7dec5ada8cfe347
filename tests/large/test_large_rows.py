"""Joins and windows over more than four GiB of text, against DuckDB: no array may come near 2 GiB."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tests.support.harness import CoreHarness
from tests.support.read_results import read_chunk
from weft.execution.input.decode import decode_files
from weft.execution.input.pieces import BYTES_AT_ONCE
from weft.execution.results.read import chunks_of, plan_reading
from weft.execution.selection.select import rows_at_once
from weft.execution.stages import run_here
from weft.plan.stream import FileSource, Format, Stream
from weft.planner.strategy import choose_strategy
from weft.sql import parse_schema

ROWS, TEXT = 2200, 1 << 20
SECOND = 1_000_000
QUERIES = {
    "join": "SELECT x.k, x.s, y.s FROM a [RANGE 20 SECONDS] x JOIN b [RANGE 20 SECONDS] y ON x.k = y.k",
    "window_join": "SELECT x.k, x.s, y.s FROM a [TUMBLE 1 MINUTE] x JOIN b [TUMBLE 1 MINUTE] y ON x.k = y.k",
    "selection": "SELECT k, s FROM a WHERE k % 3 = 0 OR s < '0000000000000100'",
    "windows": "SELECT COUNT(*), MIN(s), MAX(s) FROM a [TUMBLE 1 MINUTE]",
    "groups": "SELECT s, COUNT(*) FROM a [TUMBLE 1 MINUTE] GROUP BY s",
}
MINUTE = "time_bucket(INTERVAL 1 MINUTE, {}.ts)"
ENDED = f"ts < (SELECT {MINUTE.format('last')} FROM (SELECT max(ts) AS ts FROM a) last)"
ALONE = {
    "join": "SELECT x.k, md5(x.s), md5(y.s) FROM a x JOIN b y ON x.k = y.k"
    " AND abs(epoch_us(x.ts) - epoch_us(y.ts)) < 20000000",
    "window_join": "SELECT x.k, md5(x.s), md5(y.s) FROM a x JOIN b y ON x.k = y.k"
    f" AND {MINUTE.format('x')} = {MINUTE.format('y')}",
    "selection": "SELECT k, md5(s) FROM a WHERE k % 3 = 0 OR s < '0000000000000100'",
    "windows": f"SELECT count(*), md5(min(s)), md5(max(s)) FROM a WHERE {ENDED} GROUP BY {MINUTE.format('a')}",
    "groups": f"SELECT md5(s), 1 FROM a WHERE {ENDED}",
}


def write(path: Path, first: int, delay: int) -> None:
    """Rows one second apart; keys come twice, texts once."""
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string())])
    with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, ROWS, 100):
            numbers = np.arange(start, min(ROWS, start + 100))
            times = pa.array(numbers * SECOND + delay, schema.field("ts").type)
            texts = [f"{first + n:016x}" * (TEXT // 16) for n in numbers]
            writer.write_table(pa.table([times, numbers // 2, texts], schema=schema))


def stream(name: str, folder: Path) -> Stream:
    schema = parse_schema("ts timestamp, k bigint, s string")
    return Stream(name, schema, "ts", timedelta(0), None, FileSource(str(folder), Format.PARQUET))


def batch(harness: CoreHarness, name: str, path: Path) -> None:
    core = harness.core
    begun = core.begin(core.next_batch, partitions=2)
    assert begun is not None
    program, task = begun
    tag = program.streams[name]
    pieces = decode_files(
        tag.stream, [str(path)], columns=tag.columns, quarantine=task.quarantine, rows=rows_at_once(tag)
    )
    core.commit(task.batch, run_here(program, task, pieces))


def results(harness: CoreHarness, name: str) -> Iterator[tuple[object, ...]]:
    """Rows with digests in place of texts, read chunk by chunk."""
    record = harness.core.roster.records[harness.core.roster.names[name]]
    query = harness.core.roster.bound_query(record.id)
    reading = plan_reading(
        record,
        query,
        choose_strategy(query, record.route),
        harness.core.streams,
        data=str(harness.core.directory.path("data")),
    )
    for chunk in chunks_of(reading, harness.core.inventory.results):
        table = read_chunk(reading, chunk)
        names = [output.source or output.sql for output in query.outputs]
        if query.aggregation is not None:
            names = {"windows": ["a0", "a1", "a2"], "groups": ["g0", "a0"]}[name]
        for start in range(0, table.num_rows, 64):
            columns = [table.column(each).slice(start, 64).to_pylist() for each in names]
            yield from zip(*([_digest(value) for value in column] for column in columns), strict=True)


@contextmanager
def anonymous_memory() -> Iterator[list[int]]:
    """Bytes of memory of this process while something is done, sampled; without files that are mapped, whose memory
    Linux takes back when it wants to."""
    seen, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
            seen.append(int(status["RssAnon"].split()[0]) << 10)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _digest(value: object) -> object:
    return hashlib.md5(value.encode()).hexdigest() if isinstance(value, str) else value


def test_joins_and_windows_over_four_gib_of_text(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.parquet" for name in "ab"}
    write(paths["a"], 0, 0)
    write(paths["b"], ROWS, 5 * SECOND)
    harness = CoreHarness(tmp_path / "state", [stream(name, tmp_path) for name in "ab"], partitions=2)
    for name, sql in QUERIES.items():
        harness.create(sql, name)
    with anonymous_memory() as seen:
        for name, path in paths.items():
            batch(harness, name, path)
    assert max(seen) < 8 << 30, f"{max(seen) >> 20} MiB, though a piece has {BYTES_AT_ONCE >> 20}"
    with duckdb.connect(config={"threads": 1, "memory_limit": "8GB", "temp_directory": str(tmp_path)}) as database:
        for name, path in paths.items():
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        for name, sql in ALONE.items():
            expected = sorted(database.execute(sql).fetchall())
            assert len(expected) > 30
            assert sorted(results(harness, name)) == expected, name
