"""One micro-batch after the other: begin, run, commit, and what is worth knowing about each."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from weft.engine.core import Core
from weft.engine.deliveries import Deliveries
from weft.engine.reports import stage_seconds
from weft.errors import EngineStopped, InvalidSetting, WeftError
from weft.runtime.failures import to_user_error
from weft.runtime.job import BatchRunner
from weft.runtime.task import BatchTask, Program
from weft.state.journal import Manifest, StreamTotals

_log = logging.getLogger("weft")
_KEPT_SUMMARIES = 1000
_MAX_PARTITIONS = 4096
_LOOK_EVERY = 0.1


class _Finishing(EngineStopped):
    """A batch comes while the engine stops: it will be run by the next one."""


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


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How batches are run: in how many partitions, and for how long their results are kept (None: for ever)."""

    partitions: int
    keep_results: timedelta | None

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= _MAX_PARTITIONS:
            raise InvalidSetting(f"partitions is {self.partitions}", hint=f"Give a number from 1 to {_MAX_PARTITIONS}.")


class Batches:
    """Runs the batches that Spark hands over; a batch counts when it is committed, and then only once."""

    def __init__(self, core: Core, runner: BatchRunner, deliveries: Deliveries, *, settings: BatchSettings) -> None:
        self._core = core
        self._runner = runner
        self._deliveries = deliveries
        self._settings = settings
        self.error: WeftError | None = None
        """Why the last batch failed; None if it did not."""
        self.repeated = False
        """Whether Spark handed a batch over that was committed before."""
        self.finishing = False
        """Whether no more batches are to be run."""
        self.summaries: deque[BatchSummary] = deque(maxlen=_KEPT_SUMMARIES)

    def finish(self, seconds: float) -> None:
        """Run no more batches, and wait for the end of one that runs, but not for ever."""
        deadline = time.monotonic() + seconds
        with self._core.lock:
            self.finishing = True
            while self._core.running is not None and time.monotonic() < deadline:
                self._core.committed.wait(_LOOK_EVERY)

    def run(self, frame: Any, batch: int) -> None:
        """Run and commit a batch, unless that was done before a crash. A failed batch leaves nothing behind."""
        started = time.monotonic()
        try:
            begun = self._begin(batch)
            if begun is None:
                self.repeated = True
                return
            compiled = time.monotonic()
            reports = self._runner.run(frame, *begun)
            ran = time.monotonic()
            manifest = self._core.commit(batch, reports)
        except _Finishing:
            raise  # nothing was begun
        except BaseException as error:
            self.error = to_user_error(error, batch)
            _log.error("batch failed", extra={"batch": batch, "code": self.error.code, "error": self.error.message})
            self._core.abort()
            raise self.error from error
        seconds = {"compile": compiled - started, "run": ran - compiled, "commit": time.monotonic() - ran}
        self._note(manifest, seconds | stage_seconds(reports))
        self._trim(manifest.at)

    def _begin(self, batch: int) -> tuple[Program, BatchTask] | None:
        with self._core.lock:
            if self.finishing:
                raise _Finishing("the engine is stopping")
            return self._core.begin(batch, partitions=self._settings.partitions)

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

    def _trim(self, now: float) -> None:
        """Free results that were committed too long ago, unless a sink has not had them yet."""
        if self._settings.keep_results is None:
            return
        oldest = now - self._settings.keep_results.total_seconds()
        results = self._core.inventory.results
        kept = next((manifest.batch for manifest in results if manifest.at >= oldest), self._core.next_batch)
        undelivered = self._deliveries.oldest_undelivered()
        self._core.trim_results(kept if undelivered is None else min(kept, undelivered))
