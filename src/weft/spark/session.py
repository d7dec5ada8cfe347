"""Spark sessions: a local session tuned for short batches, and weft's own session on any Spark context."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from weft.errors import InvalidSetting
from weft.spark.environment import child_environment
from weft.spark.java import require_java
from weft.spark.job_pools import FAIR
from weft.spark.pinned_settings import pin

_log = logging.getLogger("weft")
_LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()

# Measured: Unix sockets and the simple checkpoint manager save most of the fixed cost of a batch.
_TUNED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
    "spark.sql.session.timeZone": "UTC",
    **FAIR,
}

# A local Spark is a single process, so no other machine has to reach its ports.
_LOOPBACK = "127.0.0.1"
_ALONE = {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}

_OWN = "_weft_session"
_lock = threading.RLock()
_started_here: WeakSet[SparkContext] = WeakSet()
_engines: WeakKeyDictionary[SparkContext, int] = WeakKeyDictionary()
"""The contexts that were started for engines, and the number of engines that use each."""


def local_session(
    cores: int | None = None,
    *,
    log: str | os.PathLike[str] | None = None,
    master: str = "",
    settings: Mapping[str, str] | None = None,
    secrets: Iterable[str] = (),
    pass_env: Iterable[str] = (),
) -> SparkSession:
    """Start a tuned Spark and return its session, or return the session of a Spark that already runs in this process.

    The output of Spark's processes goes to the file `log`, by default to stderr. `settings` override the tuned
    settings, which also apply to another `master`. Spark's processes do not inherit the variables named in `secrets`;
    they inherit other variables that look like secrets only if `pass_env` contains their name or a matching pattern.
    Raise JavaMissing if there is no suitable Java.
    """
    with _lock:
        running = running_session()
        if running is not None:
            return running
        require_java()
        os.environ["PYSPARK_PYTHON"] = sys.executable
        master = master or f"local[{cores or os.cpu_count() or 1}]"
        options = _TUNED | (_ALONE if is_local(master) else {}) | dict(settings or {})
        conf = SparkConf().setMaster(master).setAppName("weft").setAll(list(options.items()))
        if SparkContext._gateway is None:
            environment = _Environment(secrets=secrets, pass_env=pass_env, alone=is_local(master))
            _launch(conf, log, environment)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        _started_here.add(session.sparkContext)
        return session


def is_local(master: str) -> bool:
    """Return whether driver and executors of a master are one Java process."""
    return master == "local" or master.startswith("local[")


def running_session() -> SparkSession | None:
    """Return the session that Spark's builder returns in this process; None if Spark is not running."""
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return None
    known = SparkSession._instantiatedSession
    return known if known is not None and known.sparkContext is context else SparkSession(context)


@dataclass(frozen=True, slots=True)
class _Environment:
    """The rules for the environment variables that Spark's processes inherit."""

    secrets: Iterable[str]
    pass_env: Iterable[str]
    alone: bool

    def of_child(self, environment: Mapping[str, str]) -> dict[str, str]:
        kept = child_environment(environment, secrets=self.secrets, pass_env=self.pass_env)
        return {"SPARK_LOCAL_IP": _LOOPBACK, **kept} if self.alone else kept


class _Launching(dict[str, Any]):
    """Popen arguments for the Java process. PySpark sets `env` to the whole environment; secrets are removed."""

    def __init__(self, environment: _Environment, **settings: Any) -> None:
        super().__init__(start_new_session=True, **settings)
        self._environment = environment

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, self._environment.of_child(value) if key == "env" else value)


def _launch(conf: SparkConf, log: str | os.PathLike[str] | None, environment: _Environment) -> None:
    """Start Spark's Java process in a new operating-system session.

    Ctrl-C in a terminal goes to the whole foreground process group and would kill Spark's Python workers in the middle
    of a batch; only this process shall handle it. The Java process still ends with this one, because its stdin closes.
    """
    with open(os.devnull if log is None else log, "ab") as file:
        output = {} if log is None else {"stdout": file, "stderr": file}
        gateway = launch_gateway(conf, _Launching(environment, **output))  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


def own_session(spark: SparkSession) -> SparkSession:
    """Return weft's own session on the context of `spark`, with pinned settings. `spark` itself is never changed. Raise
    InvalidSetting if `spark` is stopped or not a classic session."""
    if not isinstance(spark, SparkSession):
        raise InvalidSetting(
            f"spark is a {type(spark).__module__}.{type(spark).__name__}, not a session of Spark in this process",
            detail="Spark Connect has no way to run weft's batches.",
            hint="Give a classic SparkSession, or none: weft then starts a local Spark.",
        )
    if spark.sparkContext._jsc is None:
        raise InvalidSetting("spark is a session that was stopped", hint="Give one that runs, or none.")
    context: Any = spark.sparkContext
    with _lock:
        own: SparkSession | None = getattr(context, _OWN, None)
        if own is None:
            # All engines on a context share one session: each session has its own Python workers, which start slowly.
            own = spark.newSession()
            pin(own)
            setattr(context, _OWN, own)
    return own


def shares_workers(spark: SparkSession) -> bool:
    """Return whether the Python workers of this Spark may also run code that is not weft's."""
    return spark.sparkContext not in _started_here


class SparkLease:
    """An engine's use of a Spark context. `spark` is the engine's session.

    A Spark that was already running or was given keeps running. A Spark that was started for an engine is stopped when
    the last engine releases it.
    """

    def __init__(self, given: SparkSession | None = None) -> None:
        with _lock:
            running = running_session() if given is None else given
            started = running is None
            base = local_session() if running is None else running
            try:
                self.spark = own_session(base)
            except BaseException:
                if started:
                    base.stop()
                raise
            self._context = self.spark.sparkContext
            self._counted = started or self._context in _engines
            if self._counted:
                _engines[self._context] = _engines.get(self._context, 0) + 1

    def release(self) -> None:
        """End the engine's use of Spark. Idempotent."""
        with _lock:
            if not self._counted:
                return
            self._counted = False
            _engines[self._context] -= 1
            if not _engines[self._context]:
                del _engines[self._context]
                _stop(self.spark)


def _stop(spark: SparkSession) -> None:
    try:
        spark.stop()
    except (Py4JError, OSError) as error:
        _log.warning("Spark did not stop in order, its Java process may be gone: %s", type(error).__name__)
