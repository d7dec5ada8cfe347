"""Begin, run and commit micro-batches, and handle their failures."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from weft.engine.batches.attempt import DROPPED, Attempts
from weft.engine.batches.crashes import Crashes
from weft.engine.batches.diagnosis import MOST_DEATHS, NOT_OF_A_QUERY, Diagnosis, failing_sources
from weft.engine.batches.reports import stage_seconds
from weft.engine.batches.summary import BatchSummary, log_batch, summarize
from weft.engine.core import Core
from weft.engine.inputs.ahead import AheadSamples
from weft.engine.inputs.inputs import Inputs, Offer
from weft.engine.results.retention import Retention
from weft.errors import (
    BatchInterrupted,
    EngineStopped,
    InvalidSetting,
    OutOfMemory,
    SparkLost,
    StateUnavailable,
    WeftError,
)
from weft.execution.program import BatchTask
from weft.plan.changelog import LiveQuery
from weft.spark.batch_job import BatchRunner
from weft.spark.errors import to_user_error

_log = logging.getLogger("weft")
_KEPT_SUMMARIES = 1000
_MAX_PARTITIONS = 4096
_RETRIES = 2
"""Times that a failed batch is repeated unchanged before the query at fault is searched for."""
_RETRY_PAUSE = 0.2
_SHORTEST_TRIAL = 10.0
"""Minimum time limit in seconds of a trial, which runs a batch for some queries to find the query at fault."""
_LONGER = 4
"""Factor by which the time limit of trials grows if they find no query at fault."""
_TIMES_USUAL = 5
"""Time limit of a trial, as a multiple of the usual duration of a batch."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Settings for running batches."""

    partitions: int
    longest: timedelta
    """A batch that takes longer is given up, and the query at fault is searched for."""

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= _MAX_PARTITIONS:
            raise InvalidSetting(f"partitions is {self.partitions}", hint=f"Give a number from 1 to {_MAX_PARTITIONS}.")


class Batches:
    """The runner of batches over the available input. A batch takes effect when it is committed."""

    def __init__(
        self, core: Core, runner: BatchRunner, inputs: Inputs, retention: Retention, *, settings: BatchSettings
    ) -> None:
        self._core = core
        self._runner = runner
        self._inputs = inputs
        self._retention = retention
        self._settings = settings
        self.attempts = Attempts(core, runner, self._usual_seconds)
        self._crashes = Crashes(core.directory.root)
        self._diagnosis = Diagnosis(core, self.attempts, self._crashes, partitions=settings.partitions)
        self.error: WeftError | None = None
        """Why the last batch failed; None if it succeeded."""
        self.failures = 0
        """Number of consecutive failed attempts."""
        self.finishing = False
        """Whether no further batches are to be run."""
        self.summaries: deque[BatchSummary] = deque(maxlen=_KEPT_SUMMARIES)
        self._turn = threading.Lock()
        """Held while an attempt runs."""
        self._ahead = AheadSamples(core.directory)

    def run(self, offer: Offer) -> BatchSummary | None:
        """Run and commit a batch over an offer; return None if nothing of the offer is left, or the engine stops.

        A failed attempt leaves nothing behind and is repeated. A source that cannot be read is left out, and a query
        that makes the batch fail is set aside. Other failures are raised. A batch that is given up because of a drop
        has not failed: it is run again without the query.
        """
        attempts = 0
        while offer and not self.finishing:
            batch = self._core.next_batch
            try:
                with self._turn:
                    # A stream may have been dropped since it was offered, or since the last attempt.
                    if not (offer := self._inputs.still_there(offer)):
                        return None
                    self._look_at_crashes(offer)
                    summary = self._attempt(offer)
            except WeftError as error:
                if self._core.next_batch > batch:
                    self._note_committed(offer, error)
                    raise
                if not (isinstance(error, BatchInterrupted) and error.detail == DROPPED):
                    attempts += 1
                    offer = self._after_failure(offer, error, attempts)
                continue
            self.error, self.failures = None, 0
            self._inputs.done(offer)
            return summary
        return None

    def between(self, work: Callable[[], None]) -> None:
        """Call `work` between two batches; no batch begins meanwhile."""
        with self._turn:
            work()

    def finish(self, seconds: float) -> bool:
        """Run no more batches. Wait at most `seconds` for the running attempt; return False if it was given up."""
        self.finishing = True
        return self.attempts.finish(seconds)

    def _attempt(self, offer: Offer) -> BatchSummary:
        """Run one attempt at a batch, and raise its errors as WeftError."""
        started, batch = time.monotonic(), self._core.next_batch
        task: BatchTask | None = None
        try:
            begun = self._core.begin(batch, partitions=self._settings.partitions, inputs=offer.to_inputs())
            assert begun is not None, "the next batch is not committed"
            program, task = begun
            compiled = time.monotonic()
            self._crashes.begin(batch)
            reports = self.attempts.run(offer, program, task, limit=self._settings.longest.total_seconds())
            ran = time.monotonic()
            manifest = self._core.commit(batch, reports, attempt=task.attempt)
            self._crashes.end()
        except BaseException as error:
            if task is not None and self._core.next_batch == batch:
                self._core.abort(task.attempt)
            user_error = self._told(error, batch) if isinstance(error, Exception) else None
            if not isinstance(user_error, SparkLost) and not self.finishing:
                self._crashes.rest()
            if user_error is not None:
                raise user_error from error
            raise
        finally:
            if task is not None:
                self.attempts.end(task, keep=self._core.next_batch > batch)
        seconds = {"compile": compiled - started, "run": ran - compiled, "commit": time.monotonic() - ran}
        try:
            self._ahead.keep(batch, reports)
            self._retention.after(manifest)
        except Exception as error:
            raise self._told(error, batch) from error
        self.summaries.append(summarize(manifest, self._core.roster, seconds | stage_seconds(reports)))
        log_batch(manifest, self._core.roster)
        return self.summaries[-1]

    def _told(self, error: Exception, batch: int) -> WeftError:
        """Return an error as a WeftError: as BatchInterrupted if the batch was given up."""
        if self.attempts.given_up:
            return BatchInterrupted(f"batch {batch} was given up", detail=self.attempts.given_up)
        committed = self._core.next_batch > batch
        return error if isinstance(error, WeftError) else to_user_error(error, batch, committed=committed)

    # ---- failures

    def _note_committed(self, offer: Offer, error: WeftError) -> None:
        """Record a failure after the commit of a batch, and release the input, which must not be read again."""
        self.error = error
        self.failures += 1
        self._inputs.done(offer)
        batch = self._core.next_batch - 1
        _log.error("tidying up after batch %d failed: %s", batch, error.one_line(), extra={"batch": batch})

    def _after_failure(self, offer: Offer, error: WeftError, attempts: int) -> Offer:
        """Return the offer to try next, or raise the error if nothing is left to try."""
        self.error = error
        self.failures += 1
        batch = self._core.next_batch
        _log.error("%s", error.one_line(), extra={"batch": batch, "code": error.code, "attempt": attempts})
        if isinstance(error, StateUnavailable) and attempts <= _RETRIES:  # it may be temporary
            time.sleep(_RETRY_PAUSE * attempts)
            return offer
        if isinstance(error, NOT_OF_A_QUERY):
            raise error
        faults = failing_sources(self._core, self._runner, offer, error)
        if faults:
            for stream, fault in faults.items():
                self._inputs.refuse(stream, fault)
            return offer.without(faults.keys())
        if attempts <= _RETRIES and not isinstance(error, (BatchInterrupted, OutOfMemory)):
            time.sleep(_RETRY_PAUSE * attempts)
            return offer
        with self._crashes.searching(self._core.next_batch):
            self._set_aside_at_fault(offer, error)
        return offer

    def _set_aside_at_fault(self, offer: Offer, error: WeftError) -> None:
        """Set aside all queries that make the batch fail; raise the error if there are none.

        If the batch did not end, short trials find a query that hangs. If they find none, longer trials follow.
        """
        longest = self._settings.longest.total_seconds()
        limit = self._trial_limit() if isinstance(error, BatchInterrupted) else longest
        blamed = 0
        while True:
            culprit = self._diagnosis.failing_query(
                offer, limit=limit, check=self._check_finishing, alone=limit < longest
            )
            if culprit is not None:
                blamed += 1
                self._blame(culprit[0], f"it makes the batch fail: {culprit[1]}")
            elif blamed:
                return
            elif limit >= longest:
                raise error
            else:
                limit = min(longest, _LONGER * limit)

    def _look_at_crashes(self, offer: Offer) -> None:
        """If several processes have died while this batch ran, find the query that kills them and set it aside."""
        note = self._crashes.of(self._core.next_batch)
        if note.deaths < MOST_DEATHS:
            return
        _log.warning("batch %d has ended %d processes: looking for the query at fault", note.batch, note.deaths)
        limit = self._settings.longest.total_seconds()
        with self._crashes.searching(self._core.next_batch):
            query = self._diagnosis.deadly_query(offer, limit=limit, check=self._check_finishing)
            if query is not None:
                self._blame(query, f"with it, batch {note.batch} has ended the process {note.deaths} times")

    def _blame(self, query: LiveQuery, reason: str) -> None:
        name, batch = query.record.name, self._core.next_batch
        self._core.set_aside(query.record.id, batch, reason)
        _log.error('query "%s" is set aside: %s', name, reason, extra={"query": name, "batch": batch})

    def _check_finishing(self) -> None:
        if self.finishing:
            raise EngineStopped("the engine stops")

    def _trial_limit(self) -> float:
        """Return the time limit in seconds of trials for a batch that did not end: a few times the usual duration."""
        wanted = _TIMES_USUAL * (self._usual_seconds() or 0.0)
        return min(self._settings.longest.total_seconds(), max(_SHORTEST_TRIAL, wanted))

    def _usual_seconds(self) -> float | None:
        """Return the median seconds of this process's batches before their commit; None before the first batch."""
        took = sorted(
            sum(summary.seconds.get(name, 0.0) for name in ("compile", "run")) for summary in tuple(self.summaries)
        )
        return took[len(took) // 2] if took else None
