"""Open the engine of a configuration and declare its streams."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from weft.engine import Engine
from weft.errors import DuplicateStream, InvalidName, InvalidSetting, SourceUnavailable, WeftError
from weft.plan.stream import FileSource
from weft.service.added_streams import check_added, read_added
from weft.service.config import Config, StreamSpec
from weft.service.streams import declare
from weft.service.tenancy.secrets import Secrets
from weft.spark.errors import cause_of
from weft.spark.session import local_session
from weft.storage.directory import Directory

_log = logging.getLogger("weft.service")


def open_engine(config: Config, secrets: Secrets) -> Engine:
    """Return the engine of a configuration with its streams; it is not started yet."""
    settings = config.engine
    Directory.open(settings.path).close()  # report a path in use before Spark is started
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
            check_added(engine.catalog.directory)
            declare_all(engine, config.streams, secrets)
            for spec in read_added(engine.catalog.directory):
                try:
                    declare(engine, spec, secrets)
                except WeftError as error:  # only the queries over this stream wait
                    engine.lose_stream(spec.name, error)
        except BaseException:
            engine.stop()
            raise
    except BaseException:
        spark.stop()
        raise
    return engine


def declare_all(engine: Engine, specs: Iterable[StreamSpec], secrets: Secrets) -> None:
    """Declare the streams of a configuration; raise what is wrong with the configuration itself.

    If the source of a known stream cannot be opened now, the service goes on, and only the queries over it wait.
    """
    for spec in specs:
        try:
            declare(engine, spec, secrets)
        except (DuplicateStream, InvalidName, InvalidSetting):
            raise
        except Exception as error:
            known = engine.catalog.declared_streams().get(spec.name)
            if known is None:
                raise
            reason = _unavailable(spec.name, error)
            if isinstance(known.source, FileSource):  # files are read as soon as the directory can be read
                _log.error(f"stream declared as it was: {reason.one_line()}", extra={"stream": spec.name})
            else:
                engine.lose_stream(spec.name, reason)


def _unavailable(stream: str, error: Exception) -> WeftError:
    if isinstance(error, WeftError):
        return error
    return SourceUnavailable(
        f'the source of stream "{stream}" cannot be opened',
        detail=cause_of(error),
        hint="Repair it, or remove the stream from the configuration file.",
    )
