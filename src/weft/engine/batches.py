"""One micro-batch after the other: begin, run, commit, and what is worth knowing about each."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.engine.core import Core
from weft.engine.reports import stage_seconds
from weft.errors import WeftError
from weft.runtime.failures import to_user_error
from weft.runtime.job import BatchRunner
from weft.state.journal import Manifest, StreamTotals

_log = logging.getLogger("weft")
_KEPT_SUMMARIES = 1000


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

    @property
    def rows(self) -> int:
        """Input rows of all streams."""
        return sum(totals.rows for totals in self.streams.values())

    @property
    def late(self) -> int:
        """Rows dropped because they were older than their stream's watermark."""
        return sum(totals.late for totals in self.streams.values())


class Batches:
    """Runs the batches that Spark hands over; a batch counts when it is committed, and then only once."""

    def __init__(self, core: Core, runner: BatchRunner, *, partitions: int) -> None:
        self._core = core
        self._runner = runner
        self._partitions = partitions
        self.error: WeftError | None = None
        """Why the last batch failed; None if it did not."""
        self.repeated = False
        """Whether Spark handed a batch over that was committed before."""
        self.summaries: deque[BatchSummary] = deque(maxlen=_KEPT_SUMMARIES)

    def run(self, frame: Any, batch: int) -> Manifest | None:
        """Run and commit a batch; None if that was done before a crash. A failed batch leaves nothing behind."""
        started = time.monotonic()
        try:
            begun = self._core.begin(batch, partitions=self._partitions)
            if begun is None:
                self.repeated = True
                return None
            compiled = time.monotonic()
            reports = self._runner.run(frame, *begun)
            ran = time.monotonic()
            manifest = self._core.commit(batch, reports)
        except BaseException as error:
            self.error = to_user_error(error, batch)
            _log.error("batch failed", extra={"batch": batch, "code": self.error.code, "error": self.error.message})
            self._core.abort()
            raise self.error from error
        seconds = {"compile": compiled - started, "run": ran - compiled, "commit": time.monotonic() - ran}
        self._note(manifest, seconds | stage_seconds(reports))
        return manifest

    def _note(self, manifest: Manifest, seconds: Mapping[str, float]) -> None:
        roster = self._core.roster
        failed = tuple(roster.name_of(query) for query, _ in manifest.failed)
        streams = dict(manifest.streams)
        self.summaries.append(BatchSummary(manifest.batch, streams, manifest.pairs, len(roster.live), failed, seconds))
        for name, totals in streams.items():
            for bad in totals.bad_files:
                _log.error("file set aside", extra={"stream": name, "file": bad})
        for query, error in manifest.failed:
            _log.warning("query failed", extra={"query": roster.name_of(query), "error": error})
