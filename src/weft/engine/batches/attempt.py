"""Attempts to run a batch: run its tasks on Spark, watch them, and give them up if they take too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from weft.engine.batches.progress import PATIENCE, Progress
from weft.engine.core import Core
from weft.engine.inputs.inputs import Offer
from weft.execution.items import BatchReport
from weft.execution.program import BatchTask, Program
from weft.spark.batch_job import BatchRunner

_log = logging.getLogger("weft")
_DROP_PATIENCE = 10.0
"""Minimum seconds that a drop waits for the running batch, which is then given up and run again without the query."""
_SLOWER_THAN_USUAL = 5.0
"""A drop waits for this many times the usual duration of a batch: a merely slow batch is not worth running again."""
_FIRST_PATIENCE = 60.0
"""Seconds that a drop waits for the first batch of a process, while the usual duration is unknown."""
_INTERRUPT_EVERY = 60.0
"""Minimum seconds between two batches that are given up for a drop, so that many drops cannot hold up all batches."""
_LOOK_EVERY = 0.01
DROPPED = "a query of it was dropped"


@dataclass(slots=True)
class _Run:
    """A running attempt."""

    task: BatchTask
    began: float
    limit: float
    reason: str = ""
    """Why the attempt is given up; empty if it is not."""
    given_up_at: float = 0.0


class Attempts:
    """The runner of batch tasks, one batch at a time. Another thread calls `watch`."""

    def __init__(self, core: Core, runner: BatchRunner, usual: Callable[[], float | None]) -> None:
        self._core, self._runner = core, runner
        self._usual = usual
        """Returns the usual seconds of a batch; None before the first batch."""
        self.progress = Progress()
        self._run: _Run | None = None
        self._interrupted_at = -_INTERRUPT_EVERY

    def run(self, offer: Offer, program: Program, task: BatchTask, *, limit: float) -> list[BatchReport]:
        """Run the tasks of a batch for at most `limit` seconds and return their reports. Call `end` afterwards."""
        self.progress.note()
        self._run = _Run(task, time.monotonic(), limit)
        frames = {name: arrival.frame for name, arrival in offer.arrivals.items()}
        try:
            return self._runner.run(frames, program, task)
        finally:
            self.progress.note()

    def end(self, task: BatchTask, *, keep: bool) -> None:
        """End an attempt. Remove its files unless `keep`."""
        self._run = None
        self.progress.note()
        if not keep:
            # A batch that was given up was aborted while its tasks ran, so they may have written more files since.
            self._core.inventory.remove_attempt(task.batch, task.attempt)

    @property
    def given_up(self) -> str:
        """Why the running attempt is given up; empty if it is not."""
        return "" if self._run is None else self._run.reason

    def watch(self) -> None:
        """Give up a batch that takes too long or delays the drop of a query. Call this periodically."""
        run, now = self._run, time.monotonic()
        if run is None or run.reason:
            return
        took = now - run.began
        if took > run.limit:
            self._give_up(run, f"it took longer than {run.limit:.0f} seconds")
        elif (
            took > _DROP_PATIENCE
            and now - self._interrupted_at > _INTERRUPT_EVERY
            and took > (patience := self._drop_patience())
            and self._core.waiting_drops(patience)
        ):
            self._interrupted_at = now
            self._give_up(run, DROPPED)

    def _drop_patience(self) -> float:
        usual = self._usual()
        return _FIRST_PATIENCE if usual is None else max(_DROP_PATIENCE, _SLOWER_THAN_USUAL * usual)

    def _give_up(self, run: _Run, reason: str) -> None:
        run.reason, run.given_up_at = reason, time.monotonic()
        took = run.given_up_at - run.began
        _log.warning("batch given up: %s", reason, extra={"batch": run.task.batch, "seconds": round(took, 1)})
        # Write the changelog now, whether or not the tasks can be cancelled: after a crash the query stays dropped.
        self._core.abort(run.task.attempt)
        self._runner.cancel()

    @property
    def is_stuck(self) -> bool:
        """Whether an attempt that was given up has not ended within `PATIENCE` seconds."""
        run = self._run
        return run is not None and bool(run.reason) and time.monotonic() - run.given_up_at > PATIENCE

    @property
    def running_for(self) -> float:
        """Seconds since the running attempt began; 0 if none runs."""
        run = self._run
        return 0.0 if run is None else time.monotonic() - run.began

    def finish(self, seconds: float) -> bool:
        """Wait until no attempt runs. After `seconds`, give up the running attempt and return False."""
        deadline = time.monotonic() + seconds
        while (run := self._run) is not None:
            if time.monotonic() > deadline:
                self._give_up(run, "the engine stops")
                return False
            time.sleep(_LOOK_EVERY)
        return True
