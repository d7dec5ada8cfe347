"""Streams: a name, a schema, an event-time column, a lateness bound and the source of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from weft.plan.types import Schema


class Format(StrEnum):
    """The file formats that weft decodes itself (the fast path)."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A directory of files that never change once they appear."""

    path: str
    format: Format
    max_files_per_batch: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    on_bad_file: str = "quarantine"
    """What to do with a file that cannot be read with the stream's schema: "quarantine" or "fail"."""


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A streaming DataFrame of the user's program, which has to be attached again after every restart."""


Source = FileSource | FrameSource

IDLE_TIMEOUT = timedelta(minutes=5)
MAX_AHEAD = timedelta(hours=1)
"""The default of `max_ahead` when a stream is declared, as in Kafka: clocks differ by less, wrong units by more."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A declared stream. The declaration survives restarts, but a `FrameSource` has to be attached again."""

    name: str
    schema: Schema
    time: str
    lateness: timedelta
    retain: timedelta | None
    source: Source
    idle_timeout: timedelta = IDLE_TIMEOUT
    """After this time without rows, the stream no longer delays windows of queries that also read other streams."""
    max_ahead: timedelta | None = None
    """Rows whose event time is farther ahead of the driver's clock are set aside and counted; None means no limit."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Warnings for the user who declares the stream."""
        if self.lateness:
            return ()
        return (
            f'stream "{self.name}" has lateness 0: a row older than the newest one of an earlier batch is dropped as '
            "late. If several producers write to it, or rows are not in order, declare a lateness.",
        )
