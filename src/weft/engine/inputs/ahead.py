"""Rows too far ahead of the clock: a sample of those that were set aside."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import WeftError
from weft.execution.selection.admission import MOST_SAMPLES
from weft.storage.directory import Directory

_log = logging.getLogger("weft")
_EVERY = 60.0
"""Seconds between two samples of a stream: one that is wrong throughout must not cost a write per batch."""


class AheadSamples:
    """The newest sample of each stream's rows that were set aside, in `ahead/<stream>.json`: one file a stream."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._written: dict[str, float] = {}

    def keep(self, batch: int, reports: Sequence[Mapping[str, Any]]) -> None:
        """Keep a few rows of a committed batch; a disk that refuses them is no reason to fail."""
        found: dict[str, list[Any]] = {}
        counts: dict[str, int] = {}
        for tag in (report["tag"] for report in reports if report.get("tag", {}).get("ahead")):
            found.setdefault(tag["stream"], []).extend(tag["samples"])
            counts[tag["stream"]] = counts.get(tag["stream"], 0) + tag["ahead"]
        now = time.monotonic()
        self._written = {stream: at for stream, at in self._written.items() if now - at < _EVERY}
        for stream, rows in found.items():
            if stream in self._written:
                continue
            self._written[stream] = now
            value = {"batch": batch, "at": time.time(), "count": counts[stream], "rows": rows[:MOST_SAMPLES]}
            try:
                self._directory.write_json(value, "ahead", stream + ".json")
            except (OSError, WeftError) as error:
                _log.warning('rows of stream "%s" that are too far ahead could not be noted: %s', stream, error)
