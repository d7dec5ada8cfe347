"""Samples of the rows that were set aside because they are too far ahead of the clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from weft.errors import WeftError
from weft.execution.items import BatchReport, TagReport
from weft.execution.selection.admission import MOST_SAMPLES
from weft.storage.directory import Directory

_log = logging.getLogger("weft")
_EVERY = 60.0
"""Seconds between two samples of a stream: a stream with only wrong times must not cost a write per batch."""


class AheadSamples:
    """The newest sample of each stream's rows that are too far ahead, in one file per stream: `ahead/<stream>.json`."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._written: dict[str, float] = {}

    def keep(self, batch: int, reports: Sequence[BatchReport]) -> None:
        """Write samples of a committed batch; a failing write is only logged."""
        samples: dict[str, list[dict[str, str | None]]] = {}
        counts: dict[str, int] = {}
        for report in reports:
            if isinstance(report, TagReport) and report.ahead:
                samples.setdefault(report.stream, []).extend(report.samples)
                counts[report.stream] = counts.get(report.stream, 0) + report.ahead
        now = time.monotonic()
        self._written = {stream: at for stream, at in self._written.items() if now - at < _EVERY}
        for stream, rows in samples.items():
            if stream in self._written:
                continue
            self._written[stream] = now
            value = {"batch": batch, "at": time.time(), "count": counts[stream], "rows": rows[:MOST_SAMPLES]}
            try:
                self._directory.write_json(value, "ahead", stream + ".json")
            except (OSError, WeftError) as error:
                _log.warning('rows of stream "%s" that are too far ahead could not be noted: %s', stream, error)
