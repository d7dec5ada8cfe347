"""What is worth knowing about a committed batch, and what of it goes into the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from weft.engine.queries.roster import Roster
from weft.storage.journal import Manifest, StreamTotals

_log = logging.getLogger("weft")


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One committed micro-batch in figures."""

    batch: int
    streams: Mapping[str, StreamTotals]
    pairs: int
    queries: int
    failed: tuple[str, ...]
    seconds: Mapping[str, float]
    """Wall time of its phases: compile, run (of which tag and probe), commit."""
    at: float = 0.0
    """When it was committed, in seconds since 1970."""

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
        """Rows that came too late for a join or window over other streams, too, which did not wait for their own."""
        return sum(totals.missed for totals in self.streams.values())

    @property
    def bad_rows(self) -> int:
        """Rows set aside because they cannot be read as declared, without those of files that were set aside."""
        return sum(totals.bad_rows for totals in self.streams.values())


def summarize(manifest: Manifest, roster: Roster, seconds: Mapping[str, float]) -> BatchSummary:
    """A committed batch in figures."""
    failed = tuple(roster.name_of(query) for query, _ in manifest.failed)
    streams = dict(manifest.streams)
    return BatchSummary(manifest.batch, streams, manifest.pairs, len(roster.live), failed, seconds, manifest.at)


def log_batch(manifest: Manifest, roster: Roster) -> None:
    """Log what was set aside in a batch, and why."""
    for name, totals in manifest.streams:
        for bad in totals.bad_files:
            _log.error('file of stream "%s" set aside: %s', name, bad, extra={"stream": name, "file": bad})
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
