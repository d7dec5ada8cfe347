"""What the property tests need of an engine: the few verbs a schedule is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from weft.plan.stream import Stream

Row = tuple[object, ...]
Inputs = Mapping[str, Sequence[pa.RecordBatch]]

CRASH_POINTS = ("after_changelog", "after_tag", "during_probe", "before_commit", "after_commit")


class Harness(Protocol):
    """An engine driven batch by batch; requests take effect at the next batch boundary."""

    def create(self, sql: str, name: str) -> None:
        """Request a query."""

    def create_many(self, items: Sequence[tuple[str, str]]) -> None:
        """Request queries, each (sql, name), in one changelog."""

    def drop(self, name: str) -> None:
        """Request that a query goes; also one whose creation is still pending."""

    def batch(self, inputs: Inputs) -> None:
        """Run one micro-batch: per stream the pieces of its input, each piece one file; a stream may be missing."""

    def crash_during(self, inputs: Inputs, point: str) -> None:
        """Run the batch but die at `point`; afterwards only `reopen` may be called."""

    def reopen(self, partitions: int) -> None:
        """A new engine on the same path; a batch that did not commit is submitted again by the caller."""

    def committed_batches(self) -> int:
        """How many batches have been committed since the path was new."""

    def complete_from(self, name: str) -> datetime | None:
        """The aware start of a live query, None from the beginning."""

    def results(self, name: str) -> Sequence[Row]:
        """Committed rows of the newest query of this name, also after its drop, as Python values."""


class OpenHarness(Protocol):
    """Makes a harness on a new path."""

    def __call__(self, path: Path, streams: Sequence[Stream], *, partitions: int) -> Harness:
        """An engine with these streams declared and no queries."""
