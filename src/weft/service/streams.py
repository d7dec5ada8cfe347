"""Streams of the configuration and of requests: which ones may be declared over HTTP, and how they are opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.engine import Engine
from weft.engine.inputs.declare import files, parse_ahead
from weft.engine.inputs.stream_store import check_name
from weft.errors import Forbidden, InvalidStream
from weft.plan.paths import has_scheme
from weft.plan.stream import Stream
from weft.service.config import ServerSection, StreamSpec
from weft.service.tenancy.secrets import Secrets, is_reference, looks_secret, references
from weft.spark.sources import open_frame

_KAFKA = "kafka"
_ADDRESSES = "kafka.bootstrap.servers"
_SPARK_FORMATS = {
    "rate": frozenset({"rowspersecond", "rampuptime", "numpartitions"}),
    _KAFKA: frozenset(
        {
            _ADDRESSES,
            "subscribe",
            "subscribepattern",
            "assign",
            "startingoffsets",
            "startingtimestamp",
            "maxoffsetspertrigger",
            "minoffsetspertrigger",
            "maxtriggerdelay",
            "minpartitions",
            "failondataloss",
            "includeheaders",
            "groupidprefix",
            "kafka.security.protocol",
            "kafka.sasl.mechanism",
            "kafka.sasl.jaas.config",
        }
    ),
}
"""Formats of Spark that requests of tenants may name, with the options allowed: none names a file or a class."""
_IN_THE_FILE = "Declare such a stream in the configuration file of the service."


def check_requested(spec: StreamSpec, server: ServerSection, *, restricted: bool) -> None:
    """Raise InvalidStream or Forbidden if a stream may not be declared over HTTP.

    `restricted` is for a service with tenants. A request then reaches only what the configuration allows: the holder of
    an administrator's token may not be entitled to read every file of the machine and to call every address.
    """
    check_name("stream", spec.name)
    for key, value in spec.options.items():
        if looks_secret(key, value):
            raise InvalidStream(
                f'stream "{spec.name}": option {key} holds a secret',
                hint="Refer to it: env:NAME is a variable of the service's environment, file:/path a file.",
            )
    if spec.is_own and references(spec.options):
        raise InvalidStream(
            f'stream "{spec.name}": options of {spec.format} files cannot be references',
            hint="They are stored with the stream. Only Spark's formats need secrets.",
        )
    if restricted:
        _check_references(spec, server)
        if spec.is_own:
            _check_path(spec, server)
        else:
            _check_format(spec, server)


def _check_references(spec: StreamSpec, server: ServerSection) -> None:
    for reference in references(spec.options):
        if reference not in server.secrets:
            raise Forbidden(
                f'stream "{spec.name}" may not refer to {reference}',
                hint="server.secrets in the configuration lists the references that requests may use.",
            )


def _check_path(spec: StreamSpec, server: ServerSection) -> None:
    if spec.path is None or has_scheme(spec.path):
        return  # `declare` refuses it, with a better reason
    path = Path(spec.path).resolve()
    if not any(path.is_relative_to(folder.resolve()) for folder in server.inputs):
        raise Forbidden(
            f'stream "{spec.name}" may not read this path',
            hint="server.inputs in the configuration lists the directories below which requests may read.",
        )


def _check_format(spec: StreamSpec, server: ServerSection) -> None:
    allowed = _SPARK_FORMATS.get(spec.format)
    if allowed is None or spec.path is not None:
        raise Forbidden(
            f'stream "{spec.name}" may not be read as {spec.format!r}' + (" from a path" if allowed else ""),
            hint=_IN_THE_FILE,
        )
    for key, value in spec.options.items():
        if key.lower() not in allowed:
            raise Forbidden(f'stream "{spec.name}" may not have the option {key}', hint=_IN_THE_FILE)
        if key.lower() == _ADDRESSES and not {address.strip() for address in value.split(",")} <= set(server.addresses):
            raise Forbidden(
                f'stream "{spec.name}" may not read from this address',
                hint="server.addresses in the configuration lists those that requests may name.",
            )


def declare(engine: Engine, spec: StreamSpec, secrets: Secrets) -> Stream:
    """Declare a stream. A format that is not one of weft's own is one of Spark's."""
    check_name("stream", spec.name)
    try:
        return engine.stream(
            spec.name,
            _source(engine, spec, secrets),
            time=spec.time,
            lateness=spec.lateness,
            retain=spec.retain,
            idle_timeout=spec.idle_timeout,
            max_ahead=parse_ahead(spec.max_ahead),
        )
    except InvalidStream as error:  # without its cause: the log would show Spark's error, secrets included
        raise InvalidStream(
            secrets.hide(error.message), detail=secrets.hide(error.detail), hint=secrets.hide(error.hint)
        ) from None


def _source(engine: Engine, spec: StreamSpec, secrets: Secrets) -> Any:
    if not spec.is_own:
        return _frame(engine, spec, secrets)
    if any(map(is_reference, spec.options.values())):
        raise InvalidStream(f'stream "{spec.name}": options of {spec.format} files cannot be references')
    if spec.path is None:
        raise InvalidStream(f'stream "{spec.name}" of {spec.format} files has no path', hint="Say where they are.")
    source = files(
        spec.path,
        format=spec.format,
        schema=spec.schema_,
        max_files_per_batch=spec.max_files_per_batch,
        options=spec.options,
        on_bad_file=spec.on_bad_file,
    )
    if spec.schema_ is not None:
        Path(spec.path).mkdir(parents=True, exist_ok=True)  # the files may come later
    return source


def _frame(engine: Engine, spec: StreamSpec, secrets: Secrets) -> Any:
    options = secrets.resolved(spec.name, spec.options)
    return open_frame(engine.spark, spec.name, format=spec.format, path=spec.path, schema=spec.schema_, options=options)
