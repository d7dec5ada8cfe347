"""Streams: a name, a schema, an event-time column, a lateness bound and where the rows come from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from weft.plan.types import Schema


class Format(StrEnum):
    """File formats decoded by weft itself (the fast path)."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A directory whose files, once they appear, never change."""

    path: str
    format: Format
    max_files_per_batch: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    on_bad_file: str = "quarantine"
    """What to do with a file that cannot be read as the stream's schema: "quarantine" or "fail"."""


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A streaming DataFrame of the user's program; attached again after every restart."""


Source = FileSource | FrameSource

IDLE_TIMEOUT = timedelta(minutes=5)
MAX_AHEAD = timedelta(hours=1)
"""What a stream gets that says nothing else, as in Kafka: clocks differ by less, and wrong units by more."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A declared stream; all but a `FrameSource` survives restarts by itself."""

    name: str
    schema: Schema
    time: str
    lateness: timedelta
    retain: timedelta | None
    source: Source
    idle_timeout: timedelta = IDLE_TIMEOUT
    """Without rows for so long, a stream no longer holds back the windows of its queries over other streams too."""
    max_ahead: timedelta | None = None
    """Rows with an event time farther ahead of the driver's clock are set aside and counted; None: none are."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What whoever declares it should know."""
        if self.lateness:
            return ()
        return (
            f'stream "{self.name}" has lateness 0: a row older than the newest one of an earlier batch is dropped as '
            "late. If several producers write to it, or rows are not in order, declare a lateness.",
        )
