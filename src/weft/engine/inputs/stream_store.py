"""Declared streams on disk, in one small file each, so that they survive restarts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from weft.errors import InvalidName
from weft.plan.stream import IDLE_TIMEOUT, MAX_AHEAD, FileSource, Format, FrameSource, Stream
from weft.plan.types import DataType, Field, Kind, Schema
from weft.storage.directory import Directory

_MAX_NAME = 128


def check_name(kind: str, name: str) -> str:
    """Return the name if it is safe in SQL, in file names and on a screen; raise InvalidName otherwise."""
    plain = name.replace("_", "a").replace("-", "a").replace(".", "a")
    if not name or len(name) > _MAX_NAME or not plain.isascii() or not plain.isalnum() or name.startswith((".", "-")):
        raise InvalidName(
            f"{kind} name {name[:_MAX_NAME]!r} is not allowed",
            hint="Use letters, digits, underscores, dots and dashes, at most 128, and begin with a letter or digit.",
        )
    return name


def save_stream(directory: Directory, stream: Stream) -> None:
    """Write a stream's declaration."""
    source: dict[str, Any] | None = None
    if isinstance(stream.source, FileSource):
        source = {
            "path": stream.source.path,
            "format": stream.source.format.value,
            "max_files_per_batch": stream.source.max_files_per_batch,
            "options": dict(stream.source.options),
            "on_bad_file": stream.source.on_bad_file,
        }
    value = {
        "name": stream.name,
        "schema": [[f.name, f.type.kind.value, f.type.precision, f.type.scale, f.type.text] for f in stream.schema],
        "time": stream.time,
        "lateness": stream.lateness.total_seconds(),
        "retain": None if stream.retain is None else stream.retain.total_seconds(),
        "source": source,
        "idle_timeout": stream.idle_timeout.total_seconds(),
        "max_ahead": None if stream.max_ahead is None else stream.max_ahead.total_seconds(),
    }
    directory.write_json(value, "streams", stream.name + ".json")


def remove_stream(directory: Directory, name: str) -> None:
    """Remove a stream's declaration and the sample of its rows that are too far ahead. Its quarantine stays, because
    it belongs to the user."""
    directory.path("ahead", name + ".json").unlink(missing_ok=True)
    directory.path("streams", name + ".json").unlink(missing_ok=True)


def load_streams(directory: Directory) -> dict[str, Stream]:
    """Return all declared streams by name."""
    names = sorted(path.name for path in directory.path("streams").glob("*.json"))
    streams = [_stream(directory.read_json("streams", name)) for name in names]
    return {stream.name: stream for stream in streams}


def _stream(value: dict[str, Any]) -> Stream:
    source, ahead = value["source"], value.get("max_ahead", MAX_AHEAD.total_seconds())
    return Stream(
        name=value["name"],
        schema=Schema(
            tuple(Field(name, DataType(Kind(kind), p, s, text)) for name, kind, p, s, text in value["schema"])
        ),
        time=value["time"],
        lateness=timedelta(seconds=value["lateness"]),
        retain=None if value["retain"] is None else timedelta(seconds=value["retain"]),
        source=FrameSource()
        if source is None
        else FileSource(
            source["path"],
            Format(source["format"]),
            source["max_files_per_batch"],
            tuple(source["options"].items()),
            source["on_bad_file"],
        ),
        idle_timeout=timedelta(seconds=value.get("idle_timeout", IDLE_TIMEOUT.total_seconds())),
        max_ahead=None if ahead is None else timedelta(seconds=ahead),
    )
