"""Summaries of committed batches, and log messages about them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from weft.engine.queries.roster import Roster
from weft.storage.journal import Manifest, StreamTotals

_log = logging.getLogger("weft")


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """The figures of a committed micro-batch."""

    batch: int
    streams: Mapping[str, StreamTotals]
    pairs: int
    queries: int
    failed: tuple[str, ...]
    seconds: Mapping[str, float]
    """Wall time by phase: compile, run (which includes tag and probe), commit."""
    at: float = 0.0
    """The time of the commit, in seconds since 1970."""

    @property
    def rows(self) -> int:
        """Input rows of all streams."""
        return sum(totals.rows for totals in self.streams.values())

    @property
    def late(self) -> int:
        """Rows dropped because they were older than their stream's watermark."""
        return sum(totals.late for totals in self.streams.values())

    @property
    def ahead(self) -> int:
        """Rows set aside because their event time was too far ahead of the clock."""
        return sum(totals.ahead for totals in self.streams.values())

    @property
    def missed(self) -> int:
        """Rows too late for a join or window over several streams, which did not wait for their idle stream."""
        return sum(totals.missed for totals in self.streams.values())

    @property
    def bad_rows(self) -> int:
        """Rows set aside because they cannot be read as declared, not counting files that were set aside."""
        return sum(totals.bad_rows for totals in self.streams.values())


def summarize(manifest: Manifest, roster: Roster, seconds: Mapping[str, float]) -> BatchSummary:
    """Return the summary of a committed batch."""
    failed = tuple(roster.name_of(query) for query, _ in manifest.failed)
    streams = dict(manifest.streams)
    return BatchSummary(manifest.batch, streams, manifest.pairs, len(roster.live), failed, seconds, manifest.at)


def log_batch(manifest: Manifest, roster: Roster) -> None:
    """Log the rows and files that a batch set aside, its late rows, and the queries that failed."""
    for name, totals in manifest.streams:
        for file in totals.bad_files:
            _log.error('file of stream "%s" set aside: %s', name, file, extra={"stream": name, "file": file})
        if totals.bad_rows:
            text = 'rows of stream "%s" set aside: %d (their texts are in quarantine/%s)'
            _log.error(text, name, totals.bad_rows, name, extra={"stream": name, "rows": totals.bad_rows})
        if totals.ahead:
            text = '%d rows of stream "%s" were set aside: their event time is more than max_ahead from now'
            _log.warning(text, totals.ahead, name, extra={"stream": name, "batch": manifest.batch})
        if totals.missed:
            text = '%d rows of stream "%s" came too late for joins or windows that did not wait for it: it was idle'
            _log.warning(text, totals.missed, name, extra={"stream": name, "batch": manifest.batch})
    for query, error in manifest.failed:
        name = roster.name_of(query)
        _log.warning('query "%s" failed: %s', name, error, extra={"query": name, "error": error})
