"""The engine of a service: opened once, kept running, stopped when all is committed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from weft.engine import Engine
from weft.errors import (
    BatchFailed,
    DuplicateStream,
    EngineStopped,
    InvalidName,
    InvalidSetting,
    InvalidStream,
    SourceUnavailable,
    WeftError,
)
from weft.plan.stream import FileSource, Stream
from weft.service.added_streams import check_added, read_added, write_added
from weft.service.config import Config, StreamSpec, seconds_of
from weft.service.health import Pulse, Standing, State, look_at, reason_of
from weft.service.http.sockets import ADDRESS_FILE
from weft.service.observer import Observer
from weft.service.streams import declare
from weft.service.tenancy.secrets import Secrets
from weft.spark.errors import cause_of, to_user_error
from weft.spark.java_process import is_stopped, java_status, kill_java
from weft.spark.session import local_session
from weft.storage.directory import Directory

_log = logging.getLogger("weft.service")
_LOOK_EVERY = 0.5
_START_PATIENCE = 300.0
_SILENCE = 60.0
"""Seconds without a look at the engine after which it does not answer."""


class Host(Protocol):
    """What a service needs of whoever has the engine."""

    on_batch: Callable[[], None]
    """Called after every batch, and when the engine's state has changed."""

    @property
    def standing(self) -> Standing:
        """How the engine is; never waits."""

    @property
    def engine(self) -> Engine:
        """The engine; raises EngineStopped while there is none, or none any more."""

    @property
    def observer(self) -> Observer:
        """What was seen of the engine; raises EngineStopped while there is none."""

    def add_stream(self, spec: StreamSpec) -> Stream:
        """Declare a stream."""

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        """Remove a stream; with `cascade`, its queries too."""

    def start(self) -> None:
        """The service begins."""

    def stop(self) -> None:
        """The service ends."""


class Visitor:
    """The engine of a program that runs it itself and only lets a service look on."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.on_batch: Callable[[], None] = lambda: None
        self.observer = Observer(engine, on_batch=lambda: self.on_batch())  # noqa: PLW0108 set later

    @property
    def standing(self) -> Standing:
        """How the engine is; whoever runs it may do so batch by batch."""
        health, error = self.engine.health(), self.engine.error
        stopped = State.RUNNING if error is None else State.FAILED
        state = {"failing": State.FAILING, "stuck": State.STUCK, "stopped": stopped}.get(health.state, State.RUNNING)
        reason = None if state is State.RUNNING else error or reason_of(self.engine, health)
        return Standing(state, reason, health.failures, failing_streams=health.failing_streams)

    def add_stream(self, spec: StreamSpec) -> Stream:
        """Declare a stream."""
        return declare(self.engine, spec, Secrets())

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        """Remove a stream; with `cascade`, its queries too."""
        self.engine.drop_stream(name, cascade=cascade)

    def start(self) -> None:
        """Begin to look on."""
        self.observer.start()

    def stop(self) -> None:
        """Look on no more."""
        self.observer.stop()


class EngineHost:
    """Opens the engine in a thread of its own, so that the service answers meanwhile; starts it again if it fails."""

    def __init__(self, config: Config, *, address: str = "", secrets: Secrets | None = None) -> None:
        """`address` is where the service is reached, for those who only know the state directory."""
        self._config = config
        self._address = address
        self._secrets = secrets or Secrets()
        self.on_batch: Callable[[], None] = lambda: None
        self.on_hopeless: Callable[[], object] = lambda: None
        """Called if there is no engine to go on with: it cannot be opened, or its Java process has ended."""
        self._engine: Engine | None = None
        self._observer: Observer | None = None
        self._stop = threading.Event()
        self._streams_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="weft-engine", daemon=True)
        self._pulse = Pulse(batch_limit=seconds_of(config.engine.batch_limit))
        self._started = self._stopping = False
        self._looks_by = float("inf")
        """When, at the latest, the thread will have looked at the engine again."""
        self.hopeless: WeftError | None = None
        """Why there is no engine to go on with."""

    def start(self) -> None:
        """Begin to open the engine."""
        self._thread.start()

    @property
    def standing(self) -> Standing:
        """How the engine is; one that the thread waits for too long does not answer."""
        standing = self._pulse.standing
        if self._stopping:
            return replace(standing, state=State.STOPPING, next_try=None)
        silent = standing.state in (State.RUNNING, State.FAILING) and time.monotonic() > self._looks_by
        error = EngineStopped("the engine does not answer", hint="Look at Spark's log; restart the service.")
        return replace(standing, state=State.STUCK, error=error) if silent else standing

    @property
    def engine(self) -> Engine:
        """The engine; raises EngineStopped while there is none, or none any more."""
        if self._engine is None or self.standing.state in (State.STOPPING, State.FAILED):
            raise self._stopped()
        return self._engine

    def _stopped(self) -> EngineStopped:
        standing = self.standing
        reason = f" ({standing.error.code})" if standing.error is not None else ""
        return EngineStopped(f"the engine is {standing.state}{reason}", hint="Ask /ready for its state.")

    @property
    def observer(self) -> Observer:
        """What was seen of the engine; raises EngineStopped while there is none."""
        if self._observer is None:
            raise self._stopped()
        return self._observer

    def add_stream(self, spec: StreamSpec) -> Stream:
        """Declare a stream that is there again after a restart, whatever it is read by."""
        engine = self.engine
        with self._streams_lock:
            if (known := engine.core.streams.get(spec.name)) is not None:
                raise DuplicateStream(f'stream "{known.name}" exists already', hint="Choose another name.")
            stream = declare(engine, spec, self._secrets)
            write_added(engine.core.directory, [*read_added(engine.core.directory), spec])
            return stream

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        """Remove a stream for good; one of the configuration file would come back with the next start."""
        engine = self.engine
        with self._streams_lock:
            if any(spec.name == name for spec in self._config.streams):
                raise InvalidStream(
                    f'stream "{name}" is declared in the configuration file',
                    hint="Remove it there, restart the service, and drop it then.",
                )
            engine.drop_stream(name, cascade=cascade)
            directory = engine.core.directory
            write_added(directory, [spec for spec in read_added(directory) if spec.name != name])

    def stop(self) -> None:
        """Finish the batch that runs, deliver what is committed, and give the state directory up."""
        self._stopping = True
        self._stop.set()
        self._thread.join()
        engine = self._engine
        if engine is None:
            return
        with suppress(OSError):
            engine.core.directory.path(ADDRESS_FILE).unlink(missing_ok=True)
        if self._observer is not None:
            self._observer.stop()
        if java_status() is not None:
            engine.core.directory.close()  # nothing else of the engine works any more, and nothing else is needed
            return
        spark = engine.spark
        try:
            engine.stop()
        except WeftError as error:  # what is committed is on disk; a full disk takes no checkpoint, and needs none
            _log.error(
                f"the engine was stopped without a last checkpoint: {error.in_a_line()}", extra={"error": error.code}
            )
        spark.stop()
        _log.info("engine stopped", extra={"batch": engine.core.next_batch})

    def kill(self) -> None:
        """End Spark at once, with whatever runs in it."""
        kill_java()

    # ---- what its thread does

    def _run(self) -> None:
        try:
            engine = open_engine(self._config, self._secrets)
            self._observer = Observer(engine, on_batch=lambda: self.on_batch())  # noqa: PLW0108 set later
            self._observer.start()
            self._engine = engine
            engine.core.directory.write_json({"address": self._address}, ADDRESS_FILE)
            self._start(engine)
        except Exception as error:
            self._give_up(_told(error))
            return
        while not self._stop.wait(_LOOK_EVERY):
            if (status := java_status()) is not None:
                self._give_up(_java_ended(status))
                return
            if not self._look(engine):
                return

    def _look(self, engine: Engine) -> bool:
        """One look at the engine, which is started again if it has failed; False if there is nothing more
        to look at: the service stops, or no engine can run in this process any more."""
        self._looks_by = time.monotonic() + _SILENCE
        try:
            if engine.core.streams and not self._started:
                self._start(engine)  # the first stream has come
            if engine.running or not self._started:
                self._tell(self._pulse.standing, self._pulse.seen(look_at(engine)))
                return True
            failure: Exception = engine.error or EngineStopped("the streaming query has ended")
        except Exception as error:  # Java does not answer, or not as it should
            failure = error
        return self._start_again(engine, failure)

    def _start_again(self, engine: Engine, failure: Exception) -> bool:
        """Start a failed engine after a pause, which is longer with every failure in a row."""
        while java_status() is None:
            if is_stopped(engine.spark):  # a batch would fail for ever: only a new process has a new Spark
                self._give_up(_spark_stopped(_told(failure)))
                return False
            pause = self._failed(_told(failure))
            if self._stop.wait(pause):
                return False
            try:
                self._start(engine)
                return True
            except Exception as error:
                failure = error
        return True  # the next look sees that Java has ended

    def _start(self, engine: Engine) -> None:
        self._looks_by = time.monotonic() + _START_PATIENCE
        if engine.core.streams:
            engine.start(self._config.engine.trigger)
            self._started = True
        self._pulse.started(engine.core.next_batch)
        _log.info("engine started", extra={"batch": engine.core.next_batch, "queries": len(engine.core.roster.live)})

    def _failed(self, error: WeftError) -> float:
        """Note a failure; the seconds to wait before the next try."""
        if self._stop.is_set():
            return 0.0
        pause = self._pulse.failed(error)
        self._looks_by = time.monotonic() + pause + _SILENCE
        failures = self._pulse.standing.failures
        _log.error(
            f"engine failed: {error.in_a_line()}; failure {failures} in a row, next try in {pause:g} s",
            extra={"code": error.code, "error": error.message, "detail": error.detail, "failures": failures},
        )
        self.on_batch()
        return pause

    def _tell(self, before: Standing, now: Standing) -> None:
        """Say in the log, and to those who follow, that the state has changed."""
        if before.state is now.state:
            return
        if now.state is State.RUNNING:
            _log.info(f"engine is running again; it was {before.state}")
        else:
            reason = "" if now.error is None else now.error.in_a_line()
            _log.error(f"engine is {now.state}: {reason}", extra={"state": now.state.value})
        self.on_batch()

    def _give_up(self, error: WeftError) -> None:
        if self._stop.is_set():
            return
        self.hopeless = error
        self._pulse.ended(error)
        _log.error(f"engine failed for good: {error.in_a_line()}", extra={"code": error.code, "error": error.message})
        self.on_hopeless()


def open_engine(config: Config, secrets: Secrets) -> Engine:
    """The engine of a configuration with its streams, not started yet."""
    settings = config.engine
    Directory.open(settings.path).close()  # a path that is in use is said before Spark is started
    spark = local_session(
        log=config.spark.log,
        master=config.spark.master,
        settings=config.spark.settings,
        secrets=config.secret_variables,
        pass_env=config.spark.pass_env,
    )
    try:
        engine = Engine(
            settings.path,
            partitions=settings.partitions,
            spark=spark,
            keep_results=settings.keep_results,
            keep_bytes=settings.keep_bytes,
            sink_backlog=settings.sink_backlog,
            sink_patience=settings.sink_patience,
            batch_limit=settings.batch_limit,
            read_limit=settings.read_limit,
        )
        try:
            check_added(engine.core.directory)
            declare_all(engine, config.streams, secrets)
            for spec in read_added(engine.core.directory):
                try:
                    declare(engine, spec, secrets)
                except WeftError as error:  # nobody can mend it in the configuration, and others must not wait for it
                    engine.lose_stream(spec.name, error)
        except BaseException:
            engine.stop()
            raise
    except BaseException:
        spark.stop()
        raise
    return engine


def declare_all(engine: Engine, specs: Iterable[StreamSpec], secrets: Secrets) -> None:
    """Declare the streams of a configuration. One that is known, and whose source cannot be had now, must not end the
    service: only its queries wait. What is wrong with the configuration itself is raised."""
    for spec in specs:
        try:
            declare(engine, spec, secrets)
        except (DuplicateStream, InvalidName, InvalidSetting):
            raise
        except Exception as error:
            known = engine.core.streams.get(spec.name)
            if known is None:
                raise
            told = _unavailable(spec.name, error)
            if isinstance(known.source, FileSource):  # it is as it was, and read as soon as its directory can be
                _log.error(f"stream declared as it was: {told.in_a_line()}", extra={"stream": spec.name})
            else:
                engine.lose_stream(spec.name, told)


def _unavailable(stream: str, error: Exception) -> WeftError:
    if isinstance(error, WeftError):
        return error
    return SourceUnavailable(
        f'the source of stream "{stream}" cannot be opened',
        detail=cause_of(error),
        hint="Repair it, or remove the stream from the configuration file.",
    )


def _told(error: Exception) -> WeftError:
    if isinstance(error, WeftError):
        return error
    found = to_user_error(error, 0)  # it was no batch
    return EngineStopped("Spark cannot go on", detail=found.detail) if isinstance(found, BatchFailed) else found


def _spark_stopped(cause: WeftError) -> WeftError:
    return EngineStopped(
        "Spark was stopped, and nothing can run in its Java process any more",
        detail=f"The failure that showed it: {cause.in_a_line()}. What was committed is safe.",
        hint="Look at the file of spark.log for the reason, and start the service again: it continues where it was.",
    )


def _java_ended(status: int) -> WeftError:
    how = f"it was killed by signal {-status}" if status < 0 else f"its exit status is {status}"
    return EngineStopped(
        f"the Java process that Spark runs in has ended: {how}",
        detail="What was committed is safe.",
        hint="Look at the file of spark.log for the reason, and start the service again: it continues where it was.",
    )
