"""A batch as one Spark job: tag stage → shuffle of references to rows → probe stages → reports to the driver."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from uuid import uuid4

import pyarrow as pa
from pyspark import Broadcast, TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from weft.errors import BatchCancelled
from weft.execution.input.decode import decode_files
from weft.execution.input.listing import group_files
from weft.execution.input.pieces import Piece, aside_from_texts, aside_to_texts, cut_pieces
from weft.execution.items import BatchReport, ExpressionFailures, decode_report
from weft.execution.program import BatchTask, Program, StreamTag
from weft.execution.selection.select import rows_at_once
from weft.execution.stages import probe_stage, probe_stages, tag_stage
from weft.plan.expression import Opaque, quote
from weft.plan.stream import FileSource
from weft.spark.broadcast import SentProgram, SentTask, sending
from weft.spark.errors import cause_of
from weft.spark.expression_errors import expression_error
from weft.spark.failing_expressions import NO_FAILURES, CandidateExpression, failing
from weft.spark.functions import register_functions
from weft.spark.job_pools import BATCHES, CANCEL_AGAIN, marked
from weft.spark.stream_frames import in_session
from weft.spark.worker import Worker, worker_limits, worker_of

BAD_FILE = "weft#bad"
"""Column that is set only in rows that carry no data but say what was set aside while reading."""
ITEM = "part int, item binary"
Batches = Iterable[pa.RecordBatch]
FileGroup = tuple[tuple[str, str], ...]
"""The files that one task reads, as (stream, path)."""


class BatchRunner:
    """A runner of batches, one at a time. A program is sent to the executors once and stays until it is replaced."""

    def __init__(self, spark: SparkSession) -> None:
        register_functions(spark)
        self._spark = spark
        self._context = spark.sparkContext
        self._worker = worker_of(spark)
        self._programs = SentProgram(self._context)
        self._turn = threading.Lock()
        self._tag = f"weft-{uuid4().hex}"
        self._idle = threading.Event()
        self._idle.set()
        self._cancelled = threading.Event()

    def run(self, frames: Mapping[str, DataFrame], program: Program, task: BatchTask) -> list[BatchReport]:
        """Run a batch over the files of its inputs and the rows of `frames` (by stream); return its tasks' reports.

        Raises BatchCancelled after `cancel`.
        """
        with self._turn, self._cancellable(f"batch {task.batch}"), sending(self._context, task) as sent:
            shared = self._programs.of(program)
            own_frames = {name: in_session(frame, self._spark) for name, frame in frames.items()}
            work = _Work(shared, sent, self._worker)
            return _run_batch(_Attempt(self._spark, own_frames, program, task, work, self._cancelled))

    def source_error(self, frame: DataFrame, *, limit: float = 600.0) -> str:
        """Return why the rows of a DataFrame cannot be computed within `limit` seconds; empty if they can.

        No batch runs at the same time, and `cancel` cancels this call, too.
        """
        timer = threading.Timer(limit, self.cancel)
        timer.daemon = True
        with self._turn:
            timer.start()
            try:
                with self._cancellable("a look at a source"):
                    frame.write.format("noop").mode("overwrite").save()
            except BatchCancelled:
                return "Its rows did not come in good time."
            except Exception as error:
                return cause_of(error)
            finally:
                timer.cancel()
        return ""

    def cancel(self, timeout: float = 30.0) -> bool:
        """Cancel the running batch, if any, from any thread; return whether it ended within `timeout` seconds.

        For the driver, the jobs of the batch end at once. Spark kills a Python worker that does not return some seconds
        later (`spark.python.task.killTimeout`). Java code that never checks for interruption cannot be stopped: the
        batch ends, but a core of a local Spark stays busy.
        """
        deadline = time.monotonic() + timeout
        if self._idle.is_set():
            return True
        self._cancelled.set()
        while True:  # repeat, because the batch may be about to start its next job
            self._context.cancelJobsWithTag(self._tag)
            if self._idle.wait(min(CANCEL_AGAIN, max(0.0, deadline - time.monotonic()))):
                return True
            if time.monotonic() >= deadline:
                return False

    def close(self) -> None:
        """Remove the program from the executors. Idempotent."""
        self._programs.close()

    @contextmanager
    def _cancellable(self, what: str) -> Iterator[None]:
        """Tag the jobs of this thread for `cancel`, and turn errors after a cancellation into BatchCancelled."""
        self._cancelled.clear()
        self._idle.clear()
        try:
            with marked(self._context, self._tag, BATCHES):
                yield
        except Exception as error:
            if not self._cancelled.is_set():
                raise
            raise BatchCancelled(
                f"{what} was cancelled",
                detail="It was broken off while it ran. Nothing of it was committed.",
                hint="It is run again when the engine goes on.",
            ) from error
        finally:
            self._idle.set()


@dataclass(frozen=True, slots=True)
class _Work:
    """The data that every task of a batch gets: the program, the batch and the set-up of the worker."""

    shared: Broadcast[Program]
    sent: SentTask
    worker: Worker


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt to run a batch: everything that the job is built from."""

    spark: SparkSession
    frames: Mapping[str, DataFrame]
    program: Program
    task: BatchTask
    work: _Work
    cancelled: threading.Event
    failures: ExpressionFailures = NO_FAILURES
    held: Mapping[str, DataFrame] = field(default_factory=dict)
    """Rows that Spark has persisted, by stream; they are not read again."""

    @property
    def streams(self) -> list[str]:
        """The streams with new files or a DataFrame."""
        return [*(name for name, files in self.task.inputs.files if files), *self.frames]

    def tasks(self, streams: Sequence[str], work: Callable[[FileGroup], Batches], schema: str) -> DataFrame:
        """Return the output of `work` on the new files of some streams, one task per group of files."""
        most = self.spark.sparkContext.defaultParallelism
        count = len(_groups(self.program, self.task, streams, most))
        numbers = self.spark.range(0, count, 1, count)
        return numbers.mapInArrow(partial(_group_task, self.work, (streams, most, work)), schema)

    def check(self) -> None:
        """Raise BatchCancelled if the batch was cancelled."""
        if self.cancelled.is_set():
            raise BatchCancelled(f"batch {self.task.batch} was cancelled")


def _groups(program: Program, task: BatchTask, streams: Collection[str], most: int) -> tuple[FileGroup, ...]:
    """Divide the new files of some streams into at most `most` groups, one per task."""
    sized_files = []
    for stream, files in task.inputs.files:
        source = program.streams[stream].stream.source
        assert isinstance(source, FileSource)
        if stream in streams:
            sized_files += [(stream, os.path.join(source.path, name), size) for name, size in files]
    return group_files(sized_files, most)


def _run_batch(attempt: _Attempt) -> list[BatchReport]:
    try:
        return _run(attempt)
    except Exception as error:
        # Only expressions that Spark evaluates can fail the whole job; the second run leaves the failing ones out.
        if expression_error(error) is None or not any(attempt.program.streams[s].opaque for s in attempt.streams):
            raise
    return _run_without_failing(attempt)


def _run_without_failing(attempt: _Attempt) -> list[BatchReport]:
    """Run a batch again after an expression has failed, without the expressions that fail.

    The rows are first read again and persisted. A failure of the source itself is raised there, so that no query is
    blamed. If that failure was temporary, no expression fails now.
    """
    with _holding(attempt) as held:
        attempt = replace(attempt, held=held)
        failures = NO_FAILURES
        for name in held:
            failures = failures.plus(
                failing(held[name], _candidates(attempt.program.streams[name], attempt), attempt.check)
            )
        reports = _run(replace(attempt, failures=failures))
    if failures != NO_FAILURES:
        reports.append(failures)
    return reports


@contextmanager
def _holding(attempt: _Attempt) -> Iterator[dict[str, DataFrame]]:
    """Persist the rows of all streams that have expressions for Spark to evaluate; yield the rows by stream."""
    held: dict[str, DataFrame] = {}
    try:
        for name in attempt.streams:
            if attempt.program.streams[name].opaque:
                attempt.check()
                held[name] = _rows(attempt, attempt.program.streams[name]).persist()
                held[name].write.format("noop").mode("overwrite").save()
        yield held
    finally:
        for rows in held.values():
            rows.unpersist()


def _candidates(tag: StreamTag, attempt: _Attempt) -> list[CandidateExpression]:
    """Return the expressions that Spark evaluates on a stream: a predicate once, a key once per query."""
    candidates = []
    for part in tag.opaque:
        if part.sql not in tag.guards:
            candidates.append(CandidateExpression(_guarded(part, tag, attempt, "true"), (tag.stream.name, part.sql)))
        for slot, wanted in tag.guards.get(part.sql, ()):
            candidates.append(CandidateExpression(_guarded(part, tag, attempt, wanted), slot))
    return candidates


def _run(attempt: _Attempt) -> list[BatchReport]:
    attempt.check()
    items = reduce(DataFrame.unionByName, _tagged(attempt))
    for stage in range(1, probe_stages(attempt.program) + 1):
        items = items.repartitionById(attempt.task.partitions, "part").mapInArrow(
            partial(_probe_task, attempt.work, stage), ITEM
        )
    return [decode_report(bytes(row.item)) for row in items.collect()]


def _tagged(attempt: _Attempt) -> Iterator[DataFrame]:
    """Yield the output of tag tasks: one DataFrame for all file streams without opaque parts, one per other stream."""
    streams = attempt.program.streams
    fast = [name for name in attempt.streams if name not in attempt.frames and not streams[name].opaque]
    if fast:
        yield attempt.tasks(fast, partial(_tag_files, attempt.work), ITEM)
    for name in attempt.streams:
        if name not in fast:
            rows = _with_opaque(_rows(attempt, streams[name]), streams[name], attempt)
            yield rows.mapInArrow(partial(_tag_rows, attempt.work, name), ITEM)


def _rows(attempt: _Attempt, tag: StreamTag) -> DataFrame:
    """Return the new rows of a stream, with the column `BAD_FILE`."""
    if tag.stream.name in attempt.held:
        return attempt.held[tag.stream.name]
    if not isinstance(tag.stream.source, FileSource):
        columns = [F.col(quote(name)) for name in tag.columns]
        return attempt.frames[tag.stream.name].select(*columns, F.lit(None).cast("string").alias(BAD_FILE))
    fields = [field for field in tag.stream.schema if field.name in tag.columns]
    schema = ", ".join(f"{quote(field.name)} {field.type.ddl()}" for field in fields) + f", {quote(BAD_FILE)} string"
    return attempt.tasks([tag.stream.name], partial(_decode_files, attempt.work), schema)


def _with_opaque(rows: DataFrame, tag: StreamTag, attempt: _Attempt) -> DataFrame:
    """Add the values that only Spark can compute. Columns get numbered names: `mapInArrow` fails on dots and quotes."""
    columns = [F.col(quote(name)) for name in (*tag.columns, BAD_FILE)]
    columns += [_guarded(part, tag, attempt, _wanted(part, tag, attempt)) for part in tag.opaque]
    return rows.select(*(column.alias(f"c{number}") for number, column in enumerate(columns)))


def _wanted(part: Opaque, tag: StreamTag, attempt: _Attempt) -> str | None:
    """Return the SQL condition of the rows that an expression is needed on; None if it is needed on no row."""
    if (tag.stream.name, part.sql) in attempt.failures.texts:
        return None
    if part.sql not in tag.guards:
        return "true"
    conditions = [sql for slot, sql in tag.guards[part.sql] if slot not in attempt.failures.slots]
    return " OR ".join(f"({sql})" for sql in conditions) or None


def _guarded(part: Opaque, tag: StreamTag, attempt: _Attempt, wanted: str | None) -> Column:
    """Return the expression on the wanted rows that `admit` lets take part, NULL on all others.

    Late rows and rows too far ahead must not make a query fail.
    """
    if wanted is None:
        return F.lit(None)
    admitted = f"{quote(BAD_FILE)} IS NULL AND {quote(tag.stream.time)} IS NOT NULL"
    micros, name = f"unix_micros({quote(tag.stream.time)})", tag.stream.name
    if (watermark := attempt.task.watermarks.get(name)) is not None:
        admitted += f" AND {micros} >= {int(watermark)}"
    if (limit := attempt.task.ahead.get(name)) is not None:
        admitted += f" AND {micros} <= {int(limit)}"
    return F.expr(f"CASE WHEN {admitted} THEN CASE WHEN {wanted} THEN {part.sql} END END")


def _group_task(
    work: _Work, groups: tuple[Sequence[str], int, Callable[[FileGroup], Batches]], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Read the groups of files whose numbers are in `batches`.

    Each task computes the groups again from the `BatchTask`, so that file names are sent only once.
    """
    streams, most, read = groups
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read(_groups(work.shared.value, work.sent.open(), streams, most)[number])


def _tag_files(work: _Work, group: FileGroup) -> Iterator[pa.RecordBatch]:
    with worker_limits(work.worker):
        program, task = work.shared.value, work.sent.open()
        tags = ((program.streams[name], urls) for name, urls in _by_stream(group).items())
        pieces = (
            piece
            for tag, urls in tags
            for piece in decode_files(
                tag.stream, urls, columns=tag.columns, quarantine=task.quarantine, rows=rows_at_once(tag)
            )
        )
        yield from _items(tag_stage(program, task, pieces))


def _tag_rows(work: _Work, stream: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    with worker_limits(work.worker):
        tag = work.shared.value.streams[stream]
        names = [*tag.columns, BAD_FILE, *(part.sql for part in tag.opaque)]
        tables = (pa.Table.from_batches([batch]).rename_columns(names) for batch in batches)
        pieces = (_apart(stream, table) for table in cut_pieces(tables, min(1 << 19, rows_at_once(tag))))
        yield from _items(tag_stage(work.shared.value, work.sent.open(), pieces))


def _apart(stream: str, table: pa.Table) -> Piece:
    """Return the rows with data as a piece, and add what the rows without data say was set aside."""
    bad = table.column(BAD_FILE)
    rows = table.drop_columns([BAD_FILE])
    if bad.null_count == len(bad):
        return Piece(stream, rows)
    return Piece(stream, rows.filter(bad.is_null()), *aside_from_texts(bad.drop_null().to_pylist()))


def _decode_files(work: _Work, group: FileGroup) -> Iterator[pa.RecordBatch]:
    with worker_limits(work.worker):
        quarantine = work.sent.open().quarantine
        for name, urls in _by_stream(group).items():
            tag = work.shared.value.streams[name]
            for piece in decode_files(tag.stream, urls, columns=tag.columns, quarantine=quarantine, checked=True):
                yield from _as_rows(piece)


def _as_rows(piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece for Spark, then a row without data for each bad file and for the number of bad rows."""
    table, bad = piece.table, aside_to_texts(piece)
    yield from table.append_column(BAD_FILE, pa.nulls(table.num_rows, pa.string())).to_batches(100_000)
    if bad:
        nulls = [pa.nulls(len(bad), column.type) for column in table.schema]
        yield pa.RecordBatch.from_arrays([*nulls, pa.array(bad)], names=[*table.column_names, BAD_FILE])


def _probe_task(work: _Work, stage: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    with worker_limits(work.worker):
        context = TaskContext.get()
        assert context is not None
        items = (item.as_py() for batch in batches for item in batch.column("item"))
        program, task = work.shared.value, work.sent.open()
        yield from _items(probe_stage(program, task, context.partitionId(), stage=stage, items=items))


def _by_stream(group: FileGroup) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for stream, path in group:
        paths.setdefault(stream, []).append(path)
    return paths


def _items(items: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    for part, item in items:
        yield pa.RecordBatch.from_arrays(
            [pa.array([part], pa.int32()), pa.array([item], pa.binary())], names=["part", "item"]
        )
