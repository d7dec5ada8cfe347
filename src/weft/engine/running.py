"""When batches are run: in the background, one at a time, or not any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from weft.engine.batches import Batches, BatchSummary
from weft.engine.core import Core
from weft.errors import EngineStopped, WeftError
from weft.runtime.failures import to_user_error
from weft.runtime.loop import AVAILABLE_NOW, Loop
from weft.sql import parse_duration

_LONGEST_BATCH = 300.0
"""Seconds that a running batch may take to end when the engine stops; then it is broken off, and run again later."""


class Running:
    """Spark's streaming query and the batches it hands over."""

    def __init__(self, core: Core, loop: Loop, batches: Batches) -> None:
        self._core, self._loop, self._batches = core, loop, batches
        self._trigger = ""
        self._settled = threading.Event()
        """Not set in a pause."""
        self._settled.set()
        self.frames: dict[str, Any] = {}
        """Streaming DataFrames, by the stream they are."""

    @property
    def active(self) -> bool:
        """Whether batches are run in the background, or will be after a pause."""
        return not self._settled.is_set() or self._loop.running

    def start(self, trigger: str) -> None:
        """Run batches in the background: every `trigger`, or "available-now" until all that is there is done."""
        if self._loop.running:
            raise EngineStopped("the engine is started already", hint="Stop it before you start it again.")
        if trigger != AVAILABLE_NOW:
            interval = parse_duration(trigger)
            trigger = f"{interval // timedelta(milliseconds=1)} milliseconds"
        self._trigger, self._batches.error = trigger, None
        self._resume()

    def _resume(self) -> None:
        self._batches.finishing = False
        self._loop.start(self._core.streams, self.frames, self._trigger)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No batch runs in the block; they go on after it, whatever happens in it, if they were run before."""
        if not self._loop.running:
            yield
            return
        self._settled.clear()  # whoever looks whether batches are run must not think that they have failed
        try:
            self.halt()
            try:
                yield
            finally:
                self._resume()
        finally:
            self._settled.set()

    def halt(self) -> None:
        """Run no more batches; one that runs is finished first."""
        self._batches.finish(_LONGEST_BATCH)
        self._loop.stop()

    def step(self) -> BatchSummary | None:
        """Run exactly one micro-batch over what is there now; None if nothing is new."""
        if self._loop.running:
            raise EngineStopped("the engine is started", hint="step() is for engines that are not; stop it first.")
        before, self._batches.error, self._batches.repeated = self._core.next_batch, None, True
        self._batches.finishing = False
        try:
            while self._batches.repeated:  # what a crash made Spark forget is no new batch
                self._batches.repeated = False
                self._loop.run_one(self._core.streams, self.frames)
        except WeftError:
            raise
        except Exception as error:
            raise self._told(error) from error
        return self._batches.summaries[-1] if self._core.next_batch > before else None

    def wait(self, timeout: float | None) -> bool:
        """Wait until the batches end by themselves, or by a failure, which is raised; False on timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            failure: Exception | None = None
            try:
                if not self._settled.wait(left) or not self._loop.wait(left):
                    return False
            except Exception as error:
                failure = error
            if self.active:
                continue  # it was a pause
            if failure is None or self._batches.finishing:
                return True
            raise self._told(failure) from failure

    def _told(self, error: Exception) -> WeftError:
        """What the batch said itself, or what Spark's words mean."""
        return self._batches.error or to_user_error(error, self._core.next_batch)
