"""From the batches of streaming queries to rates: pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Protocol

from weft.bench.case import Outcome

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
    return Outcome(rows / seconds, seconds, len(measured), len(measured) * rows / wall)


def rate_together(queries: Sequence[Sequence[Batch]], *, rows: int, begin: float, end: float) -> Outcome:
    """Of queries that run beside each other from `begin` to `end`, each reading all the input on its own.

    Rows per second is the mean over the queries: what they have read after the first warm batches of the whole
    application, by the time since. That is generous to them: the set has passed only what its slowest query has.
    """
    done = sorted((b for batches in queries for b in batches if b.rows and b.ended <= end), key=lambda b: b.ended)
    slowest = min(sum(b.rows for b in batches if b.ended <= end) for batches in queries) / (end - begin)
    if not done:
        return Outcome(slowest_rows_per_second=slowest, note="no batch was finished in time")
    first = min(WARM_UP, len(done) // 2)
    since = done[first - 1].ended if first else begin
    measured = done[first:]
    wall = sum(batch.rows for batch in measured) / len(queries) / (end - since)
    seconds = median(batch.seconds * rows / batch.rows for batch in measured)
    return Outcome(wall, seconds, len(measured), wall, slowest)
