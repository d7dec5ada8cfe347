"""From the batches of streaming queries to rates: pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import mean, median
from typing import Protocol

from weft_bench.case import Outcome

WARM_UP = 4
"""Batches left out at first: the JVM and numba compile, workers start, windows fill."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished micro-batch: when it was triggered (seconds since 1970), how long it took, input rows."""

    number: int
    started: float
    seconds: float
    rows: int

    @property
    def ended(self) -> float:
        """When it was finished."""
        return self.started + self.seconds


class Progress(Protocol):
    """The part of Spark's StreamingQueryProgress that is used here."""

    @property
    def batchId(self) -> int: ...  # noqa: D102, N802
    @property
    def timestamp(self) -> str: ...  # noqa: D102
    @property
    def durationMs(self) -> dict[str, int]: ...  # noqa: D102, N802
    @property
    def numInputRows(self) -> int: ...  # noqa: D102, N802


def to_batch(progress: Progress) -> Batch:
    """A batch as Spark reports it."""
    return Batch(
        number=progress.batchId,
        started=datetime.fromisoformat(progress.timestamp).timestamp(),
        seconds=progress.durationMs.get("triggerExecution", 0) / 1000,
        rows=progress.numInputRows,
    )


def warm(batches: Sequence[Batch], rows: int) -> list[Batch]:
    """The whole batches (of `rows` rows) after the warm-up; of few batches at least half are kept."""
    whole = [batch for batch in batches if batch.rows == rows]
    return whole[min(WARM_UP, len(whole) // 2) :]


def rate_alone(batches: Sequence[Batch], rows: int) -> Outcome:
    """Of one streaming query whose whole batches have `rows` rows: median time of its warm batches."""
    measured = warm(batches, rows)
    if not measured:
        return Outcome(note="no batch was finished in time")
    seconds = median(batch.seconds for batch in measured)
    wall = measured[-1].ended - measured[0].started
    return Outcome(
        rows_per_second=rows / seconds,
        batch_seconds=seconds,
        batches=len(measured),
        wall_rows_per_second=len(measured) * rows / wall,
        span=(measured[0].started, measured[-1].ended),
    )


def rate_together(queries: Sequence[Sequence[Batch]], *, rows: int, begin: float, end: float) -> Outcome:
    """Of queries that run beside each other and each read the same `rows` rows from `begin` on.

    All done: the rows by the time until the last query was. Cut off at `end`: what they have read on average, a batch
    under way counted as done. That is more than they have reached, and so is the rate: an error in their favour.
    """
    batches = [batch for each in queries for batch in each]
    if not batches:
        return Outcome(slowest_rows_per_second=0.0, note="no batch was finished in time")
    passed = [sum(batch.rows for batch in each) for each in queries]
    last = max(batch.ended for batch in batches)
    if min(passed) == rows:
        reached, seconds, note = float(rows), last - begin, ""
    else:
        under_way = max(batch.rows for batch in batches)
        reached, seconds = mean(min(rows, each + under_way) for each in passed), end - begin
        note = f"cut off after {seconds:.0f} s, batches under way count as done"
    return Outcome(
        rows_per_second=reached / seconds,
        batch_seconds=median(batch.seconds for batch in batches),
        batches=len(batches),
        wall_rows_per_second=reached / seconds,
        slowest_rows_per_second=min(passed) / seconds,
        note=note,
    )
