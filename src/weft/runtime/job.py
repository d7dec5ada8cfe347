"""One batch as one Spark job: tag → shuffle of references → probe → reports."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark import Broadcast, TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from weft.plan.expression import Opaque, quote
from weft.plan.stream import FileSource
from weft.runtime.decode import read_files
from weft.runtime.sources import PATH, STREAM, files_of, is_pattern, rows_of
from weft.runtime.stages import probe_stage, probe_stages, tag_stage
from weft.runtime.task import BatchTask, Program, StreamTag

BAD_FILE = "weft#bad"
REPEATED = "weft: paths may be repeated"
ITEM = "part int, item binary"
Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Failures:
    """What cannot be computed on the rows of a batch: predicates by their text, and keys by the query's slot."""

    texts: dict[str, str]
    slots: dict[int, str]


NO_FAILURES = Failures({}, {})


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
        return _run_batch(_Attempt(frame, program, task, self._shared))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One try at running a batch: everything the job is made from."""

    frame: DataFrame
    program: Program
    task: BatchTask
    shared: Broadcast[Program]
    failures: Failures = NO_FAILURES
    distinct: bool = False
    """Whether the paths of files may come more than once."""

    def files(self, streams: list[str]) -> DataFrame:
        """Paths of the new files of some streams."""
        # Without rows of other streams there is nothing to leave out: every step saved is saved in every batch.
        paths = self.frame if len(streams) == len(self.program.streams) else files_of(self.frame, streams)
        return paths.distinct() if self.distinct else paths


def _run_batch(attempt: _Attempt) -> list[dict[str, Any]]:
    try:
        reports = _run(attempt)
    except Exception as error:
        if REPEATED in str(error):
            return _run_batch(replace(attempt, distinct=True))
        # Only expressions that Spark itself evaluates can fail the whole job; they are found out and left out.
        attempt = replace(attempt, failures=_failing_expressions(attempt))
        if attempt.failures == NO_FAILURES:
            raise
        reports = _run(attempt)
        reports.append({"opaque_failures": attempt.failures.texts, "slot_failures": attempt.failures.slots})
    return reports


def _run(attempt: _Attempt) -> list[dict[str, Any]]:
    task = attempt.task
    items = reduce(DataFrame.unionByName, _tagged(attempt))
    for stage in range(1, probe_stages(attempt.program) + 1):
        items = items.repartitionById(task.partitions, "part").mapInArrow(
            partial(_probe_task, attempt.shared, task, stage), ITEM
        )
    return [json.loads(bytes(row.item)) for row in items.collect()]


def _tagged(attempt: _Attempt) -> Iterator[DataFrame]:
    """Tag tasks: one branch for all file streams that weft decodes and evaluates itself, one per other stream."""
    streams, shared, task = attempt.program.streams, attempt.shared, attempt.task
    fast = [name for name, tag in streams.items() if isinstance(tag.stream.source, FileSource) and not tag.opaque]
    if fast:
        yield attempt.files(fast).mapInArrow(partial(_tag_files, shared, task, attempt.distinct), ITEM)
    for name, tag in streams.items():
        if name not in fast:
            rows = _with_opaque(_rows(attempt, tag), tag, attempt)
            yield rows.mapInArrow(partial(_tag_rows, shared, task, name), ITEM)


def _rows(attempt: _Attempt, tag: StreamTag) -> DataFrame:
    """A stream's rows as Spark rows with a column that is set in rows which only say that a file was set aside."""
    if not isinstance(tag.stream.source, FileSource):
        return rows_of(attempt.frame, tag.stream, tag.columns).withColumn(BAD_FILE, F.lit(None).cast("string"))
    fields = [field for field in tag.stream.schema if field.name in tag.columns]
    schema = ", ".join(f"{quote(field.name)} {field.type.ddl()}" for field in fields) + f", {quote(BAD_FILE)} string"
    decode = partial(_decode_files, attempt.shared, attempt.task, attempt.distinct)
    return attempt.files([tag.stream.name]).mapInArrow(decode, schema)


def _with_opaque(rows: DataFrame, tag: StreamTag, attempt: _Attempt) -> DataFrame:
    """Add what only Spark can compute. Columns go by number from here: `mapInArrow` trips over dots and quotes."""
    columns = [F.col(quote(name)) for name in (*tag.columns, BAD_FILE)]
    columns += [_guarded(part, tag, attempt, _wanted(part, tag, attempt)) for part in tag.opaque]
    return rows.select(*(column.alias(f"c{number}") for number, column in enumerate(columns)))


def _wanted(part: Opaque, tag: StreamTag, attempt: _Attempt) -> str | None:
    """On which rows an expression is needed; None is nowhere."""
    if part.sql in attempt.failures.texts:
        return None
    if part.sql not in tag.guards:
        return "true"
    conditions = [sql for slot, sql in tag.guards[part.sql] if slot not in attempt.failures.slots]
    return " OR ".join(f"({sql})" for sql in conditions) or None


def _guarded(part: Opaque, tag: StreamTag, attempt: _Attempt, wanted: str | None) -> Column:
    """The expression on the wanted rows that are not late: others must not make a query fail."""
    if wanted is None:
        return F.lit(None)
    on_time = f"{quote(BAD_FILE)} IS NULL AND {quote(tag.stream.time)} IS NOT NULL"
    watermark = attempt.task.watermarks.get(tag.stream.name)
    if watermark is not None:
        on_time += f" AND unix_micros({quote(tag.stream.time)}) >= {int(watermark)}"
    return F.expr(f"CASE WHEN {on_time} THEN CASE WHEN {wanted} THEN {part.sql} END END")


def _failing_expressions(attempt: _Attempt) -> Failures:
    """Which of the expressions that Spark evaluates fail on this batch, each tried alone, keys for each query."""
    found = Failures({}, {})
    for tag in attempt.program.streams.values():
        for part in tag.opaque:
            if part.sql not in tag.guards:
                if error := _error_of(part, tag, attempt, "true"):
                    found.texts[part.sql] = error
                continue
            for slot, wanted in tag.guards[part.sql]:
                if error := _error_of(part, tag, attempt, wanted):
                    found.slots[slot] = error
    return found


def _error_of(part: Opaque, tag: StreamTag, attempt: _Attempt, wanted: str) -> str:
    column = _guarded(part, tag, attempt, wanted)
    try:
        _rows(attempt, tag).select(column).write.format("noop").mode("overwrite").save()
    except Exception as error:
        return str(error).splitlines()[0]
    return ""


def _tag_files(
    shared: Broadcast[Program], task: BatchTask, distinct: bool, batches: Batches
) -> Iterator[pa.RecordBatch]:
    _prepare_worker()
    program = shared.value
    tables = (
        (
            name,
            *read_files(
                program.streams[name].stream, urls, columns=program.streams[name].columns, quarantine=task.quarantine
            ),
        )
        for name, urls in _paths(batches, distinct).items()
    )
    yield from _items(tag_stage(program, task, tables))
    _settle_worker()


def _tag_rows(shared: Broadcast[Program], task: BatchTask, stream: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    _prepare_worker()
    tag = shared.value.streams[stream]
    names = [*tag.columns, BAD_FILE, *(part.sql for part in tag.opaque)]
    tables = (_apart(stream, pa.Table.from_batches([batch]).rename_columns(names)) for batch in _grouped(batches))
    yield from _items(tag_stage(shared.value, task, tables))
    _settle_worker()


def _apart(stream: str, table: pa.Table) -> tuple[str, pa.Table, tuple[str, ...]]:
    """Rows, and files that were set aside."""
    bad = table.column(BAD_FILE)
    rows = table.drop_columns([BAD_FILE])
    if bad.null_count == len(bad):
        return stream, rows, ()
    return stream, rows.filter(bad.is_null()), tuple(bad.drop_null().to_pylist())


def _decode_files(
    shared: Broadcast[Program], task: BatchTask, distinct: bool, batches: Batches
) -> Iterator[pa.RecordBatch]:
    for name, urls in _paths(batches, distinct).items():
        tag = shared.value.streams[name]
        table, bad = read_files(tag.stream, urls, columns=tag.columns, quarantine=task.quarantine)
        rows = table.append_column(BAD_FILE, pa.nulls(table.num_rows, pa.string()))
        yield from rows.to_batches(max_chunksize=100_000)
        if bad:
            nothing = [pa.nulls(len(bad), column.type) for column in table.schema]
            yield pa.RecordBatch.from_arrays([*nothing, pa.array(bad)], names=[*table.column_names, BAD_FILE])


def _probe_task(shared: Broadcast[Program], task: BatchTask, stage: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    _prepare_worker()
    context = TaskContext.get()
    assert context is not None
    items = (item.as_py() for batch in batches for item in batch.column("item"))
    yield from _items(probe_stage(shared.value, task, context.partitionId(), stage=stage, items=items))
    _settle_worker()


def _paths(batches: Batches, distinct: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for batch in batches:
        for name, path in zip(batch.column(STREAM).to_pylist(), batch.column(PATH).to_pylist(), strict=True):
            if not distinct and is_pattern(path):
                raise RuntimeError(REPEATED)
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


_tasks_done = 0
_SETTLED = 4


def _prepare_worker() -> None:
    """Once per worker process: tasks are the parallelism, so Arrow needs no threads of its own."""
    if _tasks_done == 0:
        pa.set_cpu_count(1)


def _settle_worker() -> None:
    """After the first tasks all code is loaded and never becomes garbage: the collector, which PySpark runs after
    every task, need not look at it again."""
    global _tasks_done  # noqa: PLW0603
    _tasks_done += 1
    if _tasks_done <= _SETTLED:
        gc.collect()
        gc.freeze()
