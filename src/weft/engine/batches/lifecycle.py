"""The threads that run and watch batches: start, single steps, stop, and the health of an engine."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from weft.engine.batches.batches import Batches
from weft.engine.batches.progress import PATIENCE
from weft.engine.batches.summary import BatchSummary
from weft.engine.core import Core
from weft.engine.inputs.inputs import Inputs
from weft.errors import EngineStopped, WeftError
from weft.spark.errors import to_user_error
from weft.spark.freed_memory import trim_memory
from weft.spark.stream_frames import AVAILABLE_NOW, ONE_BATCH
from weft.spark.warm_up import warm_up
from weft.sql import parse_duration

_log = logging.getLogger("weft")
_LONGEST_BATCH = 300.0
"""Seconds that the running batch may take to end when the engine stops. Then it is given up, and run again later."""
_LOOK_EVERY = 0.02
"""Seconds between two checks for new input, unless the arrival of a micro-batch ends the pause."""
_WATCH_EVERY = 0.5
_GATHER = 0.5
"""Seconds that a micro-batch of a DataFrame waits for those of other DataFrames that are being prepared."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of an engine.

    `state` is "stopped", "idle" (nothing to read), "running", "failing" (the last attempt at a batch failed, or none of
    the streams that queries read can be read) or "stuck" (a batch that was given up does not end, or the engine has
    been busy with something else for longer than a batch may take).
    """

    state: str
    failures: int
    """Number of consecutive failed attempts at the batch."""
    running_for: float
    """Seconds since the running attempt began; 0 if none runs."""
    last_commit: float | None
    """Seconds since the last commit of this process; None before the first."""
    failing_streams: tuple[str, ...]
    silent_for: float = 0.0
    """Seconds since the last progress; 0 while the engine only waits for input."""


class Running:
    """The thread that runs batches, and the thread that watches it."""

    def __init__(self, core: Core, spark: Any, inputs: Inputs, batches: Batches, *, longest: timedelta) -> None:
        """`longest` is the time limit of a batch; nothing that is done between two batches may take longer."""
        self._core, self._spark, self._inputs, self._batches = core, spark, inputs, batches
        self._progress, self._patience = batches.attempts.progress, longest.total_seconds() + PATIENCE
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._failure: WeftError | None = None
        self._idle = False

    @property
    def active(self) -> bool:
        """Whether batches are run in the background."""
        return self._thread is not None and not self._ended.is_set()

    def health(self) -> Health:
        """Return the health of the engine. Takes no lock and does not call Spark, which may hang."""
        batches, faults = self._batches, self._inputs.faults()
        silent_for = self._progress.silent_for if self.active else 0.0
        last = batches.summaries[-1].at if batches.summaries else None
        if not self.active:
            state = "stopped"
        elif batches.attempts.is_stuck or silent_for > self._patience:
            state = "stuck"
        elif (batches.failures and not self._idle) or self._inputs.is_cut_off:
            state = "failing"
        else:
            state = "idle" if self._idle else "running"
        return Health(
            state=state,
            failures=batches.failures,
            running_for=batches.attempts.running_for,
            last_commit=None if last is None else max(0.0, time.time() - last),
            failing_streams=tuple(sorted(faults)),
            silent_for=silent_for,
        )

    def start(self, trigger: str) -> None:
        """Run batches in the background: every `trigger`, or ("available-now") until all present input is read."""
        if self.active:
            raise EngineStopped("the engine is started already", hint="Stop it before you start it again.")
        if not self._core.streams:
            raise EngineStopped("no stream is declared", hint="Call engine.stream(...) before starting.")
        interval = timedelta(0) if trigger == AVAILABLE_NOW else parse_duration(trigger)
        self._begin()
        if trigger != AVAILABLE_NOW:
            warm_up(self._spark)
        millis = f"{interval // timedelta(milliseconds=1)} milliseconds"
        self._inputs.start(AVAILABLE_NOW if trigger == AVAILABLE_NOW else millis)
        self._thread = threading.Thread(target=self._run, args=(interval.total_seconds(),), name="weft-batches")
        self._thread.daemon = True
        self._thread.start()
        threading.Thread(target=self._watch, args=(self._ended,), name="weft-watch", daemon=True).start()

    def _begin(self) -> None:
        self._stop, self._ended, self._failure = threading.Event(), threading.Event(), None
        self._batches.error, self._batches.finishing, self._idle = None, False, False
        self._progress.note()

    def _run(self, interval: float) -> None:
        try:
            self._loop(interval)
        except WeftError as error:
            self._failure = error
            if error is not self._batches.error and not self._stop.is_set():  # not logged yet as the failure of a batch
                self._batches.error = error
                _log.error("batches ended: %s", error.one_line(), extra={"code": error.code})
        except BaseException as error:
            self._failure = to_user_error(error, self._core.next_batch)
            self._batches.error = self._failure
            _log.exception("batches ended: %s", self._failure.one_line(), extra={"code": self._failure.code})
        finally:
            self._progress.note()
            try:
                self._inputs.stop()
            finally:
                self._ended.set()
                with self._core.lock:
                    self._core.committed.notify_all()

    def _loop(self, interval: float) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            self._progress.note()
            self._inputs.gather(_GATHER)
            offer = self._inputs.look()
            self._idle = not offer
            if offer:
                self._batches.run(offer)
            else:
                self._rest()
                if self._inputs.is_exhausted:
                    return
            now = time.monotonic()
            due = max(due + interval, now) if offer else now + _LOOK_EVERY
            self._pause(due - now, wake=interval == 0)

    def _rest(self) -> None:
        """Tidy up because there is no input, and forget past failures unless no source can be read."""
        if not self._inputs.is_cut_off:
            self._batches.error, self._batches.failures = None, 0
        self._core.tidy()

    def _pause(self, seconds: float, *, wake: bool) -> None:
        """Wait for some seconds; with `wake`, at most until a micro-batch of a DataFrame arrives."""
        self._inputs.arrived.clear()
        if seconds <= 0:
            return
        self._progress.rest()
        (self._inputs.arrived if wake else self._stop).wait(seconds)

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(_WATCH_EVERY):
            try:
                self._batches.attempts.watch()
                trim_memory()
            except Exception as error:
                _log.exception("watching batches failed: %s", error)

    def halt(self) -> None:
        """Run no more batches. The running batch is finished first."""
        self._stop.set()
        self._inputs.arrived.set()
        if self._thread is not None:
            self._batches.finish(_LONGEST_BATCH)
            self._thread.join(_LONGEST_BATCH)
            self._thread = None

    def step(self) -> BatchSummary | None:
        """Run exactly one micro-batch over the available input; return None if there is no new input."""
        if self.active:
            raise EngineStopped("the engine is started", hint="step() is for engines that are not; stop it first.")
        if not self._core.streams:
            raise EngineStopped("no stream is declared", hint="Call engine.stream(...) first.")
        self._begin()
        threading.Thread(target=self._watch, args=(self._ended,), name="weft-watch", daemon=True).start()
        try:
            return self._step()
        except WeftError:
            raise
        except Exception as error:
            raise to_user_error(error, self._core.next_batch) from error
        finally:
            self._inputs.stop()
            self._ended.set()

    def _step(self) -> BatchSummary | None:
        while True:
            self._inputs.start(ONE_BATCH)
            self._inputs.settle()
            numbers = {name: arrival.number for name, arrival in self._inputs.frames.arrivals().items()}
            offer = self._inputs.look()
            summary = self._batches.run(offer) if offer else None
            self._core.tidy()
            self._inputs.settle()  # until Spark has committed the micro-batches that were read
            faults = self._inputs.faults()
            if summary is None and faults:
                raise next(iter(faults.values()))
            if summary is not None or numbers.keys() <= offer.arrivals.keys():
                return summary
            self._inputs.stop()  # Spark repeated a micro-batch that was committed before a crash: look for a new one

    def wait(self, timeout: float | None) -> bool:
        """Wait until the thread that runs batches ends, and raise its failure, if any; return False on timeout."""
        if self._thread is None:
            return True
        if not self._ended.wait(timeout):
            return False
        if self._failure is not None:
            raise self._failure
        return True
