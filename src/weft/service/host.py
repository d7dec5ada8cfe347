"""The engine of a service: opened once, kept running, stopped when all is committed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from weft.engine import Engine
from weft.engine.registry import check_name
from weft.engine.streams import files
from weft.errors import DuplicateStream, EngineStopped, InvalidStream, WeftError
from weft.plan.stream import Format, Stream
from weft.runtime.failures import to_user_error
from weft.runtime.session import local_session
from weft.runtime.sources import open_frame
from weft.service.config import Config, StreamSpec
from weft.service.listen import ADDRESS_FILE
from weft.service.observer import Observer
from weft.state.directory import Directory

_log = logging.getLogger("weft.service")
_LOOK_EVERY = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds before an engine that failed is started again: at first, and after many failures in a row."""
_ADDED = "added-streams.json"
"""Streams that came over HTTP, as they were asked for: what Spark reads cannot be had again from the engine."""


class State(StrEnum):
    """How the engine is."""

    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    STOPPING = "stopping"


class Host(Protocol):
    """What a service needs of whoever has the engine."""

    on_batch: Callable[[], None]
    """Called after every batch."""

    @property
    def state(self) -> State:
        """How the engine is."""

    @property
    def error(self) -> WeftError | None:
        """Why it does not run."""

    @property
    def engine(self) -> Engine:
        """The engine; raises EngineStopped while there is none, or none any more."""

    @property
    def observer(self) -> Observer:
        """What was seen of the engine; raises EngineStopped while there is none."""

    def add_stream(self, spec: StreamSpec) -> Stream:
        """Declare a stream."""

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
    def state(self) -> State:
        """How the engine is."""
        return State.FAILED if self.engine.error is not None else State.RUNNING

    @property
    def error(self) -> WeftError | None:
        """Why it does not run."""
        return self.engine.error

    def add_stream(self, spec: StreamSpec) -> Stream:
        """Declare a stream."""
        return declare(self.engine, spec)

    def start(self) -> None:
        """Begin to look on."""
        self.observer.start()

    def stop(self) -> None:
        """Look on no more."""
        self.observer.stop()


class EngineHost:
    """Opens the engine in a thread of its own, so that the service answers meanwhile; starts it again if it fails."""

    def __init__(
        self,
        config: Config,
        *,
        address: str = "",
    ) -> None:
        """`address` is where the service is reached, for those who only know the state directory."""
        self._config = config
        self._address = address
        self.on_batch: Callable[[], None] = lambda: None
        self.on_hopeless: Callable[[], object] = lambda: None
        """Called if the engine cannot be opened at all."""
        self._engine: Engine | None = None
        self._observer: Observer | None = None
        self._stop = threading.Event()
        self._streams_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="weft-engine", daemon=True)
        self.state = State.STARTING
        self.error: WeftError | None = None
        """Why it does not run."""
        self.hopeless: WeftError | None = None
        """Why it could not be opened at all."""

    def start(self) -> None:
        """Begin to open the engine."""
        self._thread.start()

    @property
    def engine(self) -> Engine:
        """The engine; raises EngineStopped while there is none, or none any more."""
        if self._engine is None or self.state is State.STOPPING:
            raise self._stopped()
        return self._engine

    def _stopped(self) -> EngineStopped:
        reason = f": {self.error.message}" if self.error is not None else ""
        return EngineStopped(f"the engine is {self.state}{reason}", hint="Ask /ready for its state.")

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
            stream = declare(engine, spec)
            directory = engine.core.directory
            added = directory.read_json(_ADDED) or []
            directory.write_json([*added, spec.model_dump(by_alias=True)], _ADDED)
            return stream

    def stop(self) -> None:
        """Finish the batch that runs, deliver what is committed, and give the state directory up."""
        self.state = State.STOPPING
        self._stop.set()
        self._thread.join()
        if self._engine is not None:
            with suppress(OSError):
                self._engine.core.directory.path(ADDRESS_FILE).unlink(missing_ok=True)
            if self._observer is not None:
                self._observer.stop()
            spark = self._engine.spark
            self._engine.stop()
            spark.stop()
            _log.info("engine stopped", extra={"batch": self._engine.core.next_batch})

    # ---- what its thread does

    def _run(self) -> None:
        try:
            engine = self._open()
            self._observer = Observer(engine, on_batch=self.on_batch)
            self._observer.start()
            self._engine = engine
            engine.core.directory.write_json({"address": self._address}, ADDRESS_FILE)
            self._start(engine)
        except Exception as error:
            self._failed(error)
            self.hopeless = self.error
            self.on_hopeless()
            return
        pause = _FIRST_PAUSE
        while not self._stop.wait(_LOOK_EVERY):
            if engine.running:
                pause = _FIRST_PAUSE if engine.summaries else pause
                continue
            self._failed(engine.error or EngineStopped("the streaming query has ended"))
            if self._stop.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                self._start(engine)
            except Exception as error:
                self._failed(error)

    def _open(self) -> Engine:
        config = self._config.engine
        Directory.open(config.path).close()  # a path that is in use is said before Spark is started
        spark_config = self._config.spark
        spark = local_session(log=spark_config.log, master=spark_config.master, settings=spark_config.settings)
        try:
            engine = Engine(config.path, partitions=config.partitions, spark=spark, keep_results=config.keep_results)
            try:
                added = [StreamSpec.model_validate(each) for each in engine.core.directory.read_json(_ADDED) or []]
                for spec in (*self._config.streams, *added):
                    declare(engine, spec)
            except BaseException:
                engine.stop()
                raise
        except BaseException:
            spark.stop()
            raise
        return engine

    def _start(self, engine: Engine) -> None:
        if engine.core.streams:
            engine.start(self._config.engine.trigger)
        self.state, self.error = State.RUNNING, None
        _log.info("engine started", extra={"batch": engine.core.next_batch, "queries": len(engine.core.roster.live)})

    def _failed(self, error: Exception) -> None:
        self.error = error if isinstance(error, WeftError) else to_user_error(error, 0)
        if self.state is not State.STOPPING:
            self.state = State.FAILED
        _log.error("engine failed", extra={"code": self.error.code, "error": self.error.message})


def declare(engine: Engine, spec: StreamSpec) -> Stream:
    """Declare a stream as a configuration says it; what is not a format of weft's is one of Spark's."""
    check_name("stream", spec.name)
    return engine.stream(
        spec.name,
        _source(engine, spec),
        time=spec.time,
        lateness=spec.lateness,
        retain=spec.retain,
        idle_timeout=spec.idle_timeout,
    )


def _source(engine: Engine, spec: StreamSpec) -> Any:
    if spec.format not in tuple(Format):
        return open_frame(
            engine.spark, spec.name, format=spec.format, path=spec.path, schema=spec.schema_, options=spec.options
        )
    if spec.path is None:
        raise InvalidStream(f'stream "{spec.name}" of {spec.format} files has no path', hint="Say where they are.")
    if spec.schema_ is not None:
        Path(spec.path).mkdir(parents=True, exist_ok=True)  # files may come later
    return files(
        spec.path,
        format=spec.format,
        schema=spec.schema_,
        max_files_per_batch=spec.max_files_per_batch,
        options=spec.options,
        on_bad_file=spec.on_bad_file,
    )
