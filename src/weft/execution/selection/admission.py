"""Admission of rows to a batch: rows without event time, late rows and rows too far ahead are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from weft.execution.items import TagReport
from weft.execution.program import BatchTask, StreamTag
from weft.kernels.python_values import python_values

Array = np.ndarray[Any, Any]

MOST_SAMPLES = 10
"""Rows that a task keeps as samples of those that are too far ahead."""
_LONGEST_SHOWN = 200


def admit(rows: pa.RecordBatch, tag: StreamTag, task: BatchTask, report: TagReport) -> tuple[pa.RecordBatch, Array]:
    """Return the rows that take part in the batch and their event times; count all rows and note the largest time.

    The limits are fixed when the batch begins, so all attempts of a task decide alike.
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
    """Keep a few of the chosen rows as samples, with shortened values."""
    room = MOST_SAMPLES - len(report.samples)
    if room > 0:
        sample = rows.take(pa.array(np.flatnonzero(chosen)[:room]))
        columns = [_shown(column) for column in sample.columns]
        report.samples += [dict(zip(sample.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _shown(column: pa.Array) -> list[str | None]:
    if pt.is_string(column.type) or pt.is_large_string(column.type):
        column = pc.utf8_slice_codeunits(column, 0, _LONGEST_SHOWN)
    elif pt.is_binary(column.type) or pt.is_large_binary(column.type):
        column = pc.binary_slice(column, 0, _LONGEST_SHOWN)
    elif pt.is_nested(column.type):
        return [f"({column.type})"[:_LONGEST_SHOWN]] * len(column)
    return [None if value is None else str(value)[:_LONGEST_SHOWN] for value in python_values(column)]
