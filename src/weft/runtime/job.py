"""One batch as one Spark job: tag → shuffle of references → probe → reports."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark import Broadcast, TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from weft.plan.expression import Opaque, quote
from weft.plan.stream import FileSource
from weft.runtime.decode import read_files
from weft.runtime.sources import PATH, STREAM, files_of, rows_of
from weft.runtime.stages import probe_stage, tag_stage
from weft.runtime.task import BatchTask, Program, StreamTag

_TAGGED = "part int, item binary"
_REPORT = "item binary"
Batches = Iterable[pa.RecordBatch]


class BatchRunner:
    """Runs batches; a program goes to the executors once and stays there until another one takes its place."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._program: Program | None = None
        self._shared: Broadcast[Program] | None = None

    def run(self, frame: DataFrame, program: Program, task: BatchTask) -> list[dict[str, Any]]:
        """Run a batch on Spark; returns what its tasks report."""
        if self._program is not program or self._shared is None:
            if self._shared is not None:
                self._shared.unpersist()
            self._shared = self._spark.sparkContext.broadcast(program)
            self._program = program
        return _run_batch(frame, program, task, self._shared)


def _run_batch(frame: DataFrame, program: Program, task: BatchTask, shared: Broadcast[Program]) -> list[dict[str, Any]]:
    failures: dict[str, str] = {}
    try:
        reports = _run(frame, program, task, shared=shared, failures=failures)
    except Exception:
        # Only expressions that Spark itself evaluates can fail the whole job; they are found out and left out.
        failures = _failing_expressions(frame, program, task, shared)
        if not failures:
            raise
        reports = _run(frame, program, task, shared=shared, failures=failures)
    return [*reports, {"opaque_failures": failures}] if failures else reports


def _run(
    frame: DataFrame, program: Program, task: BatchTask, *, shared: Broadcast[Program], failures: Mapping[str, str]
) -> list[dict[str, Any]]:
    parts = list(_tagged(frame, program, task, shared=shared, failures=failures))
    tagged = reduce(DataFrame.unionByName, parts).repartitionById(task.partitions, "part")
    done = tagged.mapInArrow(partial(_probe_task, shared, task), _REPORT)
    return [json.loads(bytes(row.item)) for row in done.collect()]


def _tagged(
    frame: DataFrame, program: Program, task: BatchTask, *, shared: Broadcast[Program], failures: Mapping[str, str]
) -> Iterator[DataFrame]:
    """Tag tasks: one branch for all file streams that weft decodes and evaluates itself, one per other stream."""
    fast = [
        name for name, tag in program.streams.items() if isinstance(tag.stream.source, FileSource) and not tag.opaque
    ]
    if fast:
        yield files_of(frame, fast).mapInArrow(partial(_tag_files, shared, task), _TAGGED)
    for name, tag in program.streams.items():
        if name not in fast:
            rows = _with_opaque(_rows(frame, task, shared, tag), tag, task, failures)
            yield rows.mapInArrow(partial(_tag_rows, shared, task, name), _TAGGED)


def _rows(frame: DataFrame, task: BatchTask, shared: Broadcast[Program], tag: StreamTag) -> DataFrame:
    """A stream's rows as Spark rows: from its own source, or decoded from its files."""
    if not isinstance(tag.stream.source, FileSource):
        return rows_of(frame, tag.stream, tag.columns)
    fields = [field for field in tag.stream.schema if field.name in tag.columns]
    schema = ", ".join(f"{quote(field.name)} {field.type.ddl()}" for field in fields)
    return files_of(frame, [tag.stream.name]).mapInArrow(partial(_decode_files, shared, task), schema)


def _with_opaque(rows: DataFrame, tag: StreamTag, task: BatchTask, failures: Mapping[str, str]) -> DataFrame:
    """Add what only Spark can compute. Columns go by number from here: `mapInArrow` trips over dots and quotes."""
    columns = [F.col(quote(name)) for name in tag.columns]
    columns += [F.lit(None) if part.sql in failures else _guarded(part, tag, task) for part in tag.opaque]
    return rows.select(*(column.alias(f"c{number}") for number, column in enumerate(columns)))


def _guarded(part: Opaque, tag: StreamTag, task: BatchTask) -> Column:
    """The expression on rows that are not late: those must not make a query fail."""
    watermark = task.watermarks.get(tag.stream.name)
    if watermark is None:
        return F.expr(part.sql)
    late = F.expr(f"unix_micros({quote(tag.stream.time)}) < {int(watermark)}")
    return F.when(~late, F.expr(part.sql))


def _failing_expressions(
    frame: DataFrame, program: Program, task: BatchTask, shared: Broadcast[Program]
) -> dict[str, str]:
    """Which of the expressions that Spark evaluates fail on this batch, each tried alone."""
    found: dict[str, str] = {}
    for tag in program.streams.values():
        for part in tag.opaque:
            rows = _rows(frame, task, shared, tag)
            try:
                rows.select(_guarded(part, tag, task)).write.format("noop").mode("overwrite").save()
            except Exception as error:
                found[part.sql] = str(error).splitlines()[0]
    return found


def _tag_files(shared: Broadcast[Program], task: BatchTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    _prepare_worker()
    program = shared.value
    tables = (
        (
            name,
            *read_files(
                program.streams[name].stream, urls, columns=program.streams[name].columns, quarantine=task.quarantine
            ),
        )
        for name, urls in _paths(batches).items()
    )
    yield from _items(tag_stage(program, task, tables))


def _tag_rows(shared: Broadcast[Program], task: BatchTask, stream: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    _prepare_worker()
    tag = shared.value.streams[stream]
    names = [*tag.columns, *(part.sql for part in tag.opaque)]
    tables = ((stream, pa.Table.from_batches([batch]).rename_columns(names), ()) for batch in _grouped(batches))
    yield from _items(tag_stage(shared.value, task, tables))


def _decode_files(shared: Broadcast[Program], task: BatchTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    for name, urls in _paths(batches).items():
        tag = shared.value.streams[name]
        table, _ = read_files(tag.stream, urls, columns=tag.columns, quarantine=task.quarantine)
        yield from table.to_batches(max_chunksize=100_000)


def _probe_task(shared: Broadcast[Program], task: BatchTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    _prepare_worker()
    context = TaskContext.get()
    assert context is not None
    items = (item.as_py() for batch in batches for item in batch.column("item"))
    reports = list(probe_stage(shared.value, task, context.partitionId(), items=items))
    yield pa.RecordBatch.from_arrays([pa.array(reports, pa.binary())], names=["item"])


def _paths(batches: Batches) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for batch in batches:
        for name, path in zip(batch.column(STREAM).to_pylist(), batch.column(PATH).to_pylist(), strict=True):
            found.setdefault(name, []).append(path)
    return found


def _grouped(batches: Batches, rows: int = 1 << 19) -> Iterator[pa.RecordBatch]:
    """Fewer, larger batches: every batch becomes a bucket."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield _one(held)
            held, count = [], 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _items(items: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    for part, item in items:
        yield pa.RecordBatch.from_arrays(
            [pa.array([part], pa.int32()), pa.array([item], pa.binary())], names=["part", "item"]
        )


_prepared = False


def _prepare_worker() -> None:
    """Once per worker process: what is loaded by now never becomes garbage, so the collector need not look at it."""
    global _prepared  # noqa: PLW0603
    if not _prepared:
        pa.set_cpu_count(1)
        gc.collect()
        gc.freeze()
        _prepared = True
