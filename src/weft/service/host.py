"""The engine of a service: a thread opens it, keeps it running, and restarts it after failures."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from weft.engine import Engine
from weft.engine.catalog import Catalog
from weft.errors import (
    BatchFailed,
    DuplicateStream,
    EngineStopped,
    InvalidStream,
    WeftError,
)
from weft.plan.stream import Stream
from weft.service.added_streams import read_added, write_added
from weft.service.config import Config, StreamSpec, seconds_of
from weft.service.health import HealthTracker, Standing, State, observe_engine
from weft.service.http.sockets import ADDRESS_FILE
from weft.service.observer import Observer, observe
from weft.service.open_engine import open_engine
from weft.service.streams import declare
from weft.service.tenancy.secrets import Secrets
from weft.spark.errors import to_user_error
from weft.spark.java_process import is_stopped, java_status

_log = logging.getLogger("weft.service")
_LOOK_EVERY = 0.5
_START_PATIENCE = 300.0
_SILENCE = 60.0
"""Seconds after which a thread that has not looked at the engine counts as waiting for it."""


class Host(Protocol):
    """What a service needs from the owner of the engine."""

    on_batch: Callable[[], None]
    """Called after every batch, and when the engine's state has changed."""

    @property
    def standing(self) -> Standing:
        """The health of the engine, without waiting for it."""

    @property
    def catalog(self) -> Catalog:
        """The catalog of the engine; raises EngineStopped while there is no engine."""

    @property
    def observer(self) -> Observer:
        """The figures of the engine; raises EngineStopped while there is no engine."""

    def add_stream(self, spec: StreamSpec) -> Stream:
        """Declare a stream."""

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        """Remove a stream, and with `cascade` the queries that read it."""

    def start(self) -> None:
        """Start with the service."""

    def stop(self) -> None:
        """Stop with the service."""


class EngineHost:
    """Opens the engine in its own thread, so that the service can answer meanwhile, and restarts it if it fails."""

    def __init__(self, config: Config, *, address: str = "", secrets: Secrets | None = None) -> None:
        """`address` is written to the state directory, so that clients who know only the directory find the service."""
        self._config = config
        self._address = address
        self._secrets = secrets or Secrets()
        self.on_batch: Callable[[], None] = lambda: None
        self.on_fatal: Callable[[], object] = lambda: None
        """Called if the engine cannot be opened or its Java process has ended."""
        self._engine: Engine | None = None
        self._observer: Observer | None = None
        self._stop = threading.Event()
        self._streams_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="weft-engine", daemon=True)
        self._pulse = HealthTracker(batch_limit=seconds_of(config.engine.batch_limit))
        self._started = self._stopping = False
        self._looks_by = float("inf")
        """The time by which the thread should have looked at the engine again."""
        self.fatal_error: WeftError | None = None
        """Why the engine cannot go on."""

    def start(self) -> None:
        """Start the thread that opens the engine."""
        self._thread.start()

    @property
    def standing(self) -> Standing:
        """The health of the engine; an engine that keeps the thread waiting for too long is stuck."""
        standing = self._pulse.standing
        if self._stopping:
            return replace(standing, state=State.STOPPING, next_try=None)
        silent = standing.state in (State.RUNNING, State.FAILING) and time.monotonic() > self._looks_by
        error = EngineStopped("the engine does not answer", hint="Look at Spark's log; restart the service.")
        return replace(standing, state=State.STUCK, error=error) if silent else standing

    @property
    def catalog(self) -> Catalog:
        """The catalog of the engine; raises EngineStopped while there is no engine."""
        return self.engine.catalog

    @property
    def engine(self) -> Engine:
        """The engine; raises EngineStopped before it is opened and after it has stopped."""
        if self._engine is None or self.standing.state in (State.STOPPING, State.FAILED):
            raise self._stopped()
        return self._engine

    def _stopped(self) -> EngineStopped:
        standing = self.standing
        reason = f" ({standing.error.code})" if standing.error is not None else ""
        return EngineStopped(f"the engine is {standing.state}{reason}", hint="Ask /ready for its state.")

    @property
    def observer(self) -> Observer:
        """The figures of the engine; raises EngineStopped while there is no engine."""
        if self._observer is None:
            raise self._stopped()
        return self._observer

    def add_stream(self, spec: StreamSpec) -> Stream:
        """Declare a stream and record its specification, so that it is declared again after a restart."""
        engine = self.engine
        with self._streams_lock:
            if spec.name in engine.catalog.declared_streams():
                raise DuplicateStream(f'stream "{spec.name}" exists already', hint="Choose another name.")
            stream = declare(engine, spec, self._secrets)
            write_added(engine.catalog.directory, [*read_added(engine.catalog.directory), spec])
            return stream

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        """Remove a stream; refuse one of the configuration file, which would come back with the next start."""
        engine = self.engine
        with self._streams_lock:
            if any(spec.name == name for spec in self._config.streams):
                raise InvalidStream(
                    f'stream "{name}" is declared in the configuration file',
                    hint="Remove it there, restart the service, and drop it then.",
                )
            engine.drop_stream(name, cascade=cascade)
            directory = engine.catalog.directory
            write_added(directory, [spec for spec in read_added(directory) if spec.name != name])

    def stop(self) -> None:
        """Finish the running batch, deliver what is committed, and release the state directory."""
        self._stopping = True
        self._stop.set()
        self._thread.join()
        engine = self._engine
        if engine is None:
            return
        with suppress(OSError):
            engine.catalog.directory.path(ADDRESS_FILE).unlink(missing_ok=True)
        if self._observer is not None:
            self._observer.stop()
        if java_status() is not None:
            engine.catalog.directory.close()  # without Java nothing else can be stopped
            return
        spark = engine.spark
        try:
            engine.stop()
        except WeftError as error:  # a full disk takes no checkpoint; what is committed is on disk
            _log.error(
                f"the engine was stopped without a last checkpoint: {error.one_line()}", extra={"error": error.code}
            )
        spark.stop()
        _log.info("engine stopped", extra={"batch": engine.catalog.next_batch})

    # ---- the thread

    def _run(self) -> None:
        try:
            engine = open_engine(self._config, self._secrets)
            self._observer = observe(engine, lambda: self.on_batch())  # noqa: PLW0108 set later
            self._observer.start()
            self._engine = engine
            engine.catalog.directory.write_json({"address": self._address}, ADDRESS_FILE)
            self._start(engine)
        except Exception as error:
            self._give_up(as_weft_error(error))
            return
        while not self._stop.wait(_LOOK_EVERY):
            if (status := java_status()) is not None:
                self._give_up(_java_ended(status))
                return
            if not self._look(engine):
                return

    def _look(self, engine: Engine) -> bool:
        """Check the engine and restart it if it has failed; return False if the thread should end."""
        self._looks_by = time.monotonic() + _SILENCE
        try:
            if engine.streams() and not self._started:
                self._start(engine)  # the first stream was declared
            if engine.running or not self._started:
                self._tell(self._pulse.standing, self._pulse.seen(observe_engine(engine)))
                return True
            failure: Exception = engine.error or EngineStopped("the streaming query has ended")
        except Exception as error:  # Java does not answer
            failure = error
        return self._start_again(engine, failure)

    def _start_again(self, engine: Engine, failure: Exception) -> bool:
        """Restart a failed engine after a pause, which grows with every failure in a row."""
        while java_status() is None:
            if is_stopped(engine.spark):  # only a new process can have a new Spark
                self._give_up(_spark_stopped(as_weft_error(failure)))
                return False
            pause = self._failed(as_weft_error(failure))
            if self._stop.wait(pause):
                return False
            try:
                self._start(engine)
                return True
            except Exception as error:
                failure = error
        return True  # the next check finds that Java has ended

    def _start(self, engine: Engine) -> None:
        self._looks_by = time.monotonic() + _START_PATIENCE
        if engine.streams():
            engine.start(self._config.engine.trigger)
            self._started = True
        self._pulse.started(engine.catalog.next_batch)
        queries = len(engine.catalog.live_queries())
        _log.info("engine started", extra={"batch": engine.catalog.next_batch, "queries": queries})

    def _failed(self, error: WeftError) -> float:
        """Record a failure, and return the seconds to wait before the next attempt."""
        if self._stop.is_set():
            return 0.0
        pause = self._pulse.failed(error)
        self._looks_by = time.monotonic() + pause + _SILENCE
        failures = self._pulse.standing.failures
        _log.error(
            f"engine failed: {error.one_line()}; failure {failures} in a row, next try in {pause:g} s",
            extra={"code": error.code, "error": error.message, "detail": error.detail, "failures": failures},
        )
        self.on_batch()
        return pause

    def _tell(self, before: Standing, now: Standing) -> None:
        """Log a change of state and notify the followers."""
        if before.state is now.state:
            return
        if now.state is State.RUNNING:
            _log.info(f"engine is running again; it was {before.state}")
        else:
            reason = "" if now.error is None else now.error.one_line()
            _log.error(f"engine is {now.state}: {reason}", extra={"state": now.state.value})
        self.on_batch()

    def _give_up(self, error: WeftError) -> None:
        if self._stop.is_set():
            return
        self.fatal_error = error
        self._pulse.ended(error)
        _log.error(f"engine failed for good: {error.one_line()}", extra={"code": error.code, "error": error.message})
        self.on_fatal()


def as_weft_error(error: Exception) -> WeftError:
    """Return an error as one that users can read."""
    if isinstance(error, WeftError):
        return error
    user_error = to_user_error(error, 0)  # no batch was running
    if isinstance(user_error, BatchFailed):
        return EngineStopped("Spark cannot go on", detail=user_error.detail)
    return user_error


def _spark_stopped(cause: WeftError) -> WeftError:
    return EngineStopped(
        "Spark was stopped, and nothing can run in its Java process any more",
        detail=f"The failure that showed it: {cause.one_line()}. What was committed is safe.",
        hint="Look at the file of spark.log for the reason, and start the service again: it continues where it was.",
    )


def _java_ended(status: int) -> WeftError:
    how = f"it was killed by signal {-status}" if status < 0 else f"its exit status is {status}"
    return EngineStopped(
        f"the Java process that Spark runs in has ended: {how}",
        detail="What was committed is safe.",
        hint="Look at the file of spark.log for the reason, and start the service again: it continues where it was.",
    )
