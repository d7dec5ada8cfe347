"""The state of the engine, derived from what can be observed without waiting for it.

An engine is ready while its batches are committed or there is nothing to do. After a failure it counts as failing
until a batch is committed or nothing is left to do, and while none of its sources can be read. A batch that takes
longer than its limit counts as stuck, and so does an engine that makes no progress outside of batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from weft.engine import Engine
from weft.engine.batches.lifecycle import Health
from weft.errors import BatchFailed, EngineStopped, SourceUnavailable, WeftError

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a failed engine is started again: after the first failure, and at most."""
_CALM = 30.0
"""Seconds without a batch after which a restarted engine is assumed to have nothing to do."""
_MOST_DOUBLINGS = 16


class State(StrEnum):
    """The states of an engine."""

    STARTING = "starting"
    RUNNING = "running"
    FAILING = "failing"
    STUCK = "stuck"
    FAILED = "failed"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the engine at the last observation. Times are those of the monotonic clock."""

    state: State
    error: WeftError | None = None
    failures: int = 0
    """Consecutive failures, without a commit between them."""
    next_try: float | None = None
    batch_began: float | None = None
    failing_streams: tuple[str, ...] = ()
    """Streams that cannot be read now; the queries that read them wait."""

    @property
    def ready(self) -> bool:
        """Whether the engine works."""
        return self.state is State.RUNNING


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of an engine."""

    committed: int
    """Number of batches that were ever committed."""
    batch: int | None
    """The batch that runs; None if none does."""
    running_for: float | None = None
    """Seconds that the batch has been running; None if the engine does not report it."""
    idle: bool = False
    """Whether the engine certainly has nothing to do."""
    stuck: bool = False
    silent_for: float = 0.0
    """Seconds that the engine has been busy without progress."""
    failing: bool = False
    """Whether the engine reports that it cannot work now, with or without counted failures."""
    failures: int = 0
    """Consecutive failures that the engine itself has counted."""
    error: WeftError | None = None
    failing_streams: tuple[str, ...] = ()


def observe_engine(engine: Engine) -> Observation:
    """Observe an engine; takes no lock."""
    health, batch = engine.health(), engine.catalog.running_batch
    return Observation(
        committed=engine.catalog.next_batch,
        batch=batch,
        running_for=health.running_for if batch is not None else None,
        idle=health.state == "idle",
        stuck=health.state == "stuck",
        silent_for=health.silent_for,
        failing=health.state == "failing",
        failures=health.failures,
        error=reason_of(engine, health),
        failing_streams=health.failing_streams,
    )


def reason_of(engine: Engine, health: Health) -> WeftError | None:
    """Return why an engine fails (its last batch, or sources that cannot be read), or None. Takes no lock."""
    if health.state != "failing" and not health.failures:
        return None
    return engine.error or _cut_off(engine.stream_errors())


def _cut_off(errors: Mapping[str, WeftError]) -> WeftError | None:
    if len(errors) <= 1:
        return next(iter(errors.values()), None)
    names = ", ".join(f'"{name}"' for name in sorted(errors))
    return SourceUnavailable(
        f"none of the streams that queries read can be read: {names}",
        detail=" ".join(f"{name}: {error.detail or error.message}" for name, error in sorted(errors.items())),
        hint="They are tried again; repair the sources meanwhile.",
    )


class HealthTracker:
    """The standing of an engine, derived from observations by one thread. Any thread may read `standing`."""

    def __init__(self, *, batch_limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = batch_limit, clock
        self.standing = Standing(State.STARTING)
        self._failures = 0
        self._error: WeftError | None = None
        self._committed = 0
        """Number of committed batches when the engine was last started."""
        self._batch: int | None = None
        self._began = 0.0
        self._calm_since = clock()

    def started(self, committed: int) -> None:
        """Note that the engine was started. After failures it counts as failing until a batch is committed."""
        self._committed, self._batch, self._calm_since = committed, None, self._clock()
        state = State.FAILING if self._failures else State.RUNNING
        self.standing = Standing(state, self._error, self._failures)

    def failed(self, error: WeftError) -> float:
        """Note that the engine has failed, and return the seconds to wait before it is started again."""
        self._failures, self._error = self._failures + 1, error
        pause = min(FIRST_PAUSE * 2.0 ** min(self._failures - 1, _MOST_DOUBLINGS), LONGEST_PAUSE)
        self.standing = Standing(State.FAILING, error, self._failures, next_try=self._clock() + pause)
        return pause

    def ended(self, error: WeftError) -> None:
        """Note that the engine has failed for good."""
        self.standing = Standing(State.FAILED, error, self._failures)

    def seen(self, seen: Observation) -> Standing:
        """Update the standing from an observation of a running engine, and return it."""
        now = self._clock()
        began = self._batch_began(seen, now)
        if seen.committed > self._committed or self._is_idle(seen, now):
            self._failures, self._error = 0, None
        failures, error = max(self._failures, seen.failures), self._error or seen.error
        state = State.FAILING if failures or seen.failing else State.RUNNING
        if began is not None and now - began > self._limit:
            state, error = State.STUCK, self._too_long(seen.batch)
        elif seen.stuck:
            state, error = State.STUCK, self._too_long(seen.batch) if seen.running_for else _no_progress(seen)
        reason = error if state is not State.RUNNING else None
        failing = seen.failing_streams
        self.standing = Standing(state, reason, failures, batch_began=began, failing_streams=failing)
        return self.standing

    def _batch_began(self, seen: Observation, now: float) -> float | None:
        if seen.batch is None:
            self._batch = None
            return None
        if seen.running_for is not None:
            return now - seen.running_for
        if seen.batch != self._batch:
            self._batch, self._began = seen.batch, now
        return self._began

    def _is_idle(self, seen: Observation, now: float) -> bool:
        if seen.batch is not None or seen.failures:
            self._calm_since = now
        return seen.idle or now - self._calm_since > _CALM

    def _too_long(self, batch: int | None) -> WeftError:
        return BatchFailed(
            f"batch {batch} has been running for more than {self._limit:g} seconds",
            detail="Nothing of it is committed, and no other batch runs before it has ended.",
            hint="engine.batch_limit says how long a batch may take.",
        )


def _no_progress(seen: Observation) -> WeftError:
    return EngineStopped(
        f"the engine has made no progress for {seen.silent_for:.0f} seconds",
        detail="It hangs outside the tasks of a batch: looking for input, planning, committing or tidying up.",
        hint="Look at the file systems of the streams and of the state directory, and at Spark's log; then restart.",
    )
