"""Retention of results: by age, by size, and for sinks that have not received them, up to a limit.

Age is the time for which an engine was open on the state directory, by a monotonic clock: a wall clock that is set
ahead by a day must not remove a day of results. Marks record how much was written up to which batch and when. There are
at most a few hundred marks, whatever the number of batches, and they survive a restart.
"""

from __future__ import annotations

import logging
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from weft.engine.core import Core
from weft.engine.sinks.deliveries import Deliveries
from weft.errors import InvalidSetting, WeftError
from weft.sql import parse_duration
from weft.storage.journal import Manifest

_log = logging.getLogger("weft")
KEEP_RESULTS = "24 hours"
KEEP_BYTES = "50 GB"
SINK_BACKLOG = "10 GB"
SINK_PATIENCE = "24 hours"
AUTOMATIC = "auto"
FOREVER = "forever"
_FILE = "retention.json"
_MOST_MARKS = 512
_SAVE_EVERY = 10.0
_SIZE = re.compile(r"\s*([0-9]{1,15})\s*([kmgt]?)b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@dataclass(frozen=True, slots=True)
class Keep:
    """Limits on the results that are kept; None means no limit."""

    seconds: float | None
    bytes: int | None
    sink_bytes: int | None
    """Limit on results that are kept only because a sink has not received them."""
    sink_seconds: float | None
    """Limit on the time for which such results are kept longer than others."""


def keep(
    keep_results: str | timedelta | None = KEEP_RESULTS,
    keep_bytes: str | int | None = AUTOMATIC,
    *,
    sink_backlog: str | int | None = SINK_BACKLOG,
    sink_patience: str | timedelta | None = SINK_PATIENCE,
) -> Keep:
    """Return the limits of an engine. If results are kept for ever, bytes are limited only if `keep_bytes` is given."""
    seconds = _seconds(keep_results)
    if keep_bytes == AUTOMATIC:
        keep_bytes = None if seconds is None else KEEP_BYTES
    return Keep(seconds, parse_size(keep_bytes), parse_size(sink_backlog), _seconds(sink_patience))


def _seconds(given: str | timedelta | None) -> float | None:
    return None if given is None or given == FOREVER else parse_duration(given).total_seconds()


def parse_size(given: str | int | None) -> int | None:
    """Return the bytes of a setting, a number or a text; None or "forever" means no limit. Raises InvalidSetting."""
    if given is None or given == FOREVER:
        return None
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    match = _SIZE.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise InvalidSetting(f'"{str(given)[:80]}" is not a size', hint='Write it like "500 MB" or "10 GB".')
    return int(match[1]) * _UNITS[match[2].lower()]


@dataclass(frozen=True, slots=True)
class Mark:
    """The time at which all batches before `batch` were committed, and the bytes written by then."""

    batch: int
    at: float
    bytes: int


class Retention:
    """The removal of results after each batch, according to the settings and unless somebody reads them."""

    def __init__(
        self, core: Core, deliveries: Deliveries, settings: Keep, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._core, self._deliveries, self._keep = core, deliveries, settings
        self._clock = clock
        self._began = self._saved_at = clock()
        self._before, self._marks = self._load()
        self._bytes = self._marks[-1].bytes

    @property
    def _now(self) -> float:
        """Seconds for which engines were open on this state directory."""
        return self._before + self._clock() - self._began

    def after(self, manifest: Manifest) -> None:
        """Remove old results after the commit of a batch. An error fails no batch: the next call tries again."""
        if self._keep.seconds is None and self._keep.bytes is None:
            return
        try:
            self._note(manifest)
            self._trim(manifest.batch)
            if self._clock() - self._saved_at > _SAVE_EVERY:
                self.save()
        except (OSError, WeftError) as error:
            _log.warning("old results cannot be removed now: %s", error)

    def _note(self, manifest: Manifest) -> None:
        self._bytes += bytes_of(manifest)
        self._marks.append(Mark(manifest.batch + 1, self._now, self._bytes))
        if len(self._marks) > _MOST_MARKS:
            self._marks = _thinned(self._marks)

    def _trim(self, batch: int) -> None:
        kept = self._kept(batch, self._marks[-1].at)
        self._fail_slow_sinks(kept)
        undelivered = self._deliveries.oldest_undelivered()
        before = kept if undelivered is None else min(kept, undelivered)
        if before > (self._core.inventory.first_result or 0):
            self._core.trim_results(before)
        self._deliveries.let_go()
        first = max(0, bisect_right(self._marks, before, key=lambda mark: mark.batch) - 1)
        self._marks = self._marks[first:]

    def _kept(self, batch: int, now: float) -> int:
        """Return the first batch to keep by age and size, regardless of sinks and readers."""
        kept = 0
        for mark in self._marks:
            old = self._keep.seconds is not None and now - mark.at > self._keep.seconds
            surplus = self._keep.bytes is not None and self._bytes - mark.bytes >= self._keep.bytes
            kept = mark.batch if old or surplus else kept
        return min(kept, batch)

    def _fail_slow_sinks(self, kept: int) -> None:
        for query, recorded in self._deliveries.needs():
            if self._too_slow(recorded, kept):
                # The sink may be further: progress over batches without rows is recorded only now and then.
                first = self._deliveries.note(query)
                if first is not None and (reason := self._too_slow(first, kept)):
                    self._deliveries.fail(query, reason)

    def _too_slow(self, first: int, kept: int) -> str:
        """Return why a sink that needs batch `first` is too slow, or empty. Only sinks need results before `kept`."""
        newest, oldest = self._at(kept), self._at(first)
        owed, late = newest.bytes - oldest.bytes, newest.at - oldest.at
        excess = ""
        if self._keep.sink_bytes is not None and owed > self._keep.sink_bytes:
            excess = f"{owed:,} bytes (sink_backlog)"
        elif self._keep.sink_seconds is not None and late > self._keep.sink_seconds:
            excess = f"{late:,.0f} seconds (sink_patience)"
        detail = f"results from batch {first} on were kept for it alone, by now {excess}"
        return f"it is too slow, or down: {detail}" if excess and first < kept else ""

    def _at(self, batch: int) -> Mark:
        """Return the mark of a batch, or the last mark before it."""
        position = bisect_right(self._marks, batch, key=lambda mark: mark.batch)
        return self._marks[max(0, position - 1)]

    # ---- to disk and back

    def save(self) -> None:
        """Save the clock and the marks durably."""
        marks = [[mark.batch, mark.at, mark.bytes] for mark in self._marks]
        self._core.directory.write_json({"clock": self._now, "marks": marks}, _FILE)
        self._saved_at = self._clock()

    def _load(self) -> tuple[float, list[Mark]]:
        """Return the saved clock and marks. Batches without a mark count as new: they are kept longer, not lost."""
        try:
            saved = self._core.directory.read_json(_FILE) or {"clock": 0.0, "marks": []}
            clock, marks = float(saved["clock"]), [Mark(*values) for values in saved["marks"]]
        except (WeftError, KeyError, TypeError, ValueError) as error:
            _log.warning("ages of results cannot be read, so they are kept as if they were new: %s", error)
            clock, marks = 0.0, []
        written = marks[-1].bytes if marks else 0
        if not marks or marks[-1].batch < self._core.next_batch:
            marks.append(Mark(self._core.next_batch, clock, written))
        return clock, marks


def _thinned(marks: Sequence[Mark]) -> list[Mark]:
    """Return about half of the maximum number of marks, evenly spaced in time or in bytes."""
    first, last = marks[0], marks[-1]
    seconds, size = (4 * (last.at - first.at) / _MOST_MARKS, 4 * (last.bytes - first.bytes) / _MOST_MARKS)
    chosen = [first]
    for mark in marks[1:-1]:
        if mark.at - chosen[-1].at > seconds or mark.bytes - chosen[-1].bytes > size:
            chosen.append(mark)
    return [*chosen, last]


def bytes_of(manifest: Manifest) -> int:
    """Return the bytes that a batch wrote and that readers of results may need."""
    results = sum(segment.bytes for segment in manifest.segments) + sum(result.bytes for result in manifest.windows)
    return results + sum(bucket.bytes for bucket in (*manifest.selected, *manifest.buckets))
