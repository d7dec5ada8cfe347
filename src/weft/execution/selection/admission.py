"""Which rows of a stream take part in a batch: those that have an event time that is neither late nor too far ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from weft.execution.program import BatchTask, StreamTag
from weft.execution.selection.computed import TagReport
from weft.kernels.python_values import python_values

Array = np.ndarray[Any, Any]

MOST_SAMPLES = 10
"""Rows that are shown, of all that a task sets aside."""
_LONGEST_SHOWN = 200


def admit(rows: pa.RecordBatch, tag: StreamTag, task: BatchTask, report: TagReport) -> tuple[pa.RecordBatch, Array]:
    """The rows that take part, with their event times; all are counted, and the largest time that counts is noted.

    What is late and what is too far ahead was decided when the batch began: every try of a task decides the same.
    """
    report.rows += rows.num_rows
    column = rows.column(tag.stream.time)
    if column.null_count:
        report.timeless += column.null_count
        rows = rows.filter(column.is_valid())
        column = rows.column(tag.stream.time)
    times = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=True)
    limit, watermark = task.ahead.get(tag.stream.name), task.watermarks.get(tag.stream.name)
    if limit is not None and len(times) and int(times.max()) > limit:
        ahead = times > limit
        report.ahead += int(ahead.sum())
        _note(rows, ahead, report)
        rows, times = rows.filter(pa.array(~ahead)), times[~ahead]
    if len(times) == 0:
        return rows, times
    newest = int(times.max())
    report.max_time = newest if report.max_time is None else max(report.max_time, newest)
    if watermark is not None and int(times.min()) < watermark:
        on_time = times >= watermark
        report.late += len(times) - int(on_time.sum())
        return rows.filter(pa.array(on_time)), times[on_time]
    return rows, times


def _note(rows: pa.RecordBatch, chosen: Array, report: TagReport) -> None:
    """Keep a few of the chosen rows, each value cut short."""
    missing = MOST_SAMPLES - len(report.samples)
    if missing > 0:
        some = rows.take(pa.array(np.flatnonzero(chosen)[:missing]))
        columns = [_shown(column) for column in some.columns]
        report.samples += [dict(zip(some.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _shown(column: pa.Array) -> list[str | None]:
    if pt.is_string(column.type) or pt.is_large_string(column.type):
        column = pc.utf8_slice_codeunits(column, 0, _LONGEST_SHOWN)
    elif pt.is_binary(column.type) or pt.is_large_binary(column.type):
        column = pc.binary_slice(column, 0, _LONGEST_SHOWN)
    elif pt.is_nested(column.type):
        return [f"({column.type})"[:_LONGEST_SHOWN]] * len(column)
    return [None if value is None else str(value)[:_LONGEST_SHOWN] for value in python_values(column)]
