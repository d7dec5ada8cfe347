"""Declarations of streams, checked before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from weft.errors import DuplicateStream, InvalidSetting, InvalidStream
from weft.plan.paths import local_path
from weft.plan.stream import IDLE_TIMEOUT, MAX_AHEAD, FileSource, Format, FrameSource, Source, Stream
from weft.plan.types import Kind, Schema
from weft.spark.schemas import frame_schema, infer_schema
from weft.sql import parse_duration, parse_schema
from weft.storage.bucket import RESERVED


@dataclass(frozen=True, slots=True)
class Files:
    """A directory of files as the user describes it; without a `schema`, it is inferred from the files."""

    source: FileSource
    schema: str | None


def files(
    path: str | os.PathLike[str],
    *,
    format: str = "parquet",
    schema: str | None = None,
    max_files_per_batch: int | None = None,
    options: Mapping[str, str] | None = None,
    on_bad_file: str = "quarantine",
) -> Files:
    """Return a source of files in a directory: "parquet", "json" (lines), "csv" (with header) or "arrow" (IPC).

    Files must appear complete (write them elsewhere, then rename) and never change. An omitted schema is inferred from
    the files, if there are any. Rows that do not fit are left out and corrupt files are set aside; both are counted and
    kept in the state directory's quarantine. With `on_bad_file="fail"` they stop the stream instead. A batch takes all
    files that are there, up to half a gigabyte or `max_files_per_batch`.
    """
    if on_bad_file not in ("quarantine", "fail"):
        raise InvalidSetting(f"on_bad_file is {on_bad_file!r}", hint='Give "quarantine" or "fail".')
    if max_files_per_batch is not None and max_files_per_batch < 1:
        raise InvalidSetting(f"max_files_per_batch is {max_files_per_batch}", hint="Give 1 or more.")
    try:
        kind = Format(format)
    except ValueError:
        names = ", ".join(member.value for member in Format)
        raise InvalidSetting(f"format {format!r} is not one weft reads", hint=f"Give one of: {names}.") from None
    hint = "weft reads its own formats from directories that all workers reach; mount it, or let Spark read it."
    folder = os.path.abspath(local_path(os.fspath(path), "stream path", hint=hint))
    pairs = tuple(sorted((options or {}).items()))
    if len(dict(pairs).get("sep", ",")) != 1:
        raise InvalidSetting(f"option sep is {dict(pairs)['sep']!r}", hint="Give a single character.")
    return Files(FileSource(folder, kind, max_files_per_batch, pairs, on_bad_file), schema)


def parse_ahead(text: str) -> timedelta | None:
    """Parse `max_ahead` as in a configuration: a duration, "unlimited", or an empty text for the default of streams."""
    return None if text == "unlimited" else parse_duration(text) if text else MAX_AHEAD


def declare_stream(
    name: str,
    source: Any,
    *,
    time: str,
    lateness: timedelta,
    retain: timedelta | None,
    existing: Stream | None,
    idle_timeout: timedelta = IDLE_TIMEOUT,
    max_ahead: timedelta | None = MAX_AHEAD,
) -> Stream:
    """Return the stream that these arguments describe; refuse one that differs from an existing stream of the same
    name in more than `idle_timeout` and `max_ahead`."""
    kind, schema = _source(name, source, time, existing)
    field = schema.find(time)
    if field is None:
        raise InvalidStream(
            f'time column "{time}" does not exist in stream "{name}"', hint=f"Columns are: {', '.join(schema.names())}."
        )
    if field.type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        raise InvalidStream(
            f'time column "{time}" of stream "{name}" has type {field.type.ddl()}',
            hint="The event time must be a timestamp; convert it in the source.",
        )
    reserved = [column for column in schema.names() if column.startswith(RESERVED)]
    if reserved:
        raise InvalidStream(f'column "{reserved[0]}" of stream "{name}" has a reserved name', hint="Rename it.")
    stream = Stream(name, schema, field.name, lateness, retain, kind, idle_timeout, max_ahead)
    if existing is not None and replace(existing, idle_timeout=idle_timeout, max_ahead=max_ahead) != stream:
        raise DuplicateStream(
            f'stream "{name}" exists with another definition',
            hint="Declare it as it was, or choose another name.",
        )
    return stream


def _source(name: str, source: Any, time: str, existing: Stream | None) -> tuple[Source, Schema]:
    if isinstance(source, Files):
        if source.schema is not None:
            return source.source, parse_schema(source.schema)
        if existing is not None:
            return source.source, existing.schema
        return source.source, infer_schema(name, source.source, time)
    if not getattr(source, "isStreaming", False):
        raise InvalidStream(
            f'source of stream "{name}" is not a streaming DataFrame',
            hint="Give weft.files(...) or what spark.readStream...load() returns.",
        )
    return FrameSource(), frame_schema(source)
