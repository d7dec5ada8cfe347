"""Sinks: where the rows of single queries go outside of weft."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet

from weft.errors import InvalidSetting
from weft.runtime.results import to_rows
from weft.state.directory import disk_errors

_MANIFESTS = "_weft"


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """A directory of Parquet files, one per batch with rows; exactly once.

    A file appears whole (written aside, then renamed) under a name that its batch determines, and `_weft/` has a
    manifest for each: a batch delivered again after a crash replaces its own file.
    """

    path: str


@dataclass(frozen=True, slots=True)
class CallbackSink:
    """A Python function `fn(rows, batch)`; at least once: after a crash the last batch may be delivered again."""

    function: Callable[[Sequence[Any], int], None]


Sink = ParquetSink | CallbackSink


def parquet(path: str | os.PathLike[str]) -> ParquetSink:
    """A sink that writes a query's rows as Parquet files into a directory of its own, exactly once."""
    return ParquetSink(os.path.abspath(path))


def callback(function: Callable[[Sequence[Any], int], None]) -> CallbackSink:
    """A sink that calls `function(rows, batch)`, at least once; attach it again after a restart."""
    return CallbackSink(function)


def hand_over(sink: Sink, table: pa.Table, batch: int) -> None:
    """Give a sink a query's rows of a batch."""
    match sink:
        case CallbackSink(function=function):
            function(list(to_rows(table)), batch)
        case ParquetSink(path=path):
            _write_parquet(Path(path), table, batch)


def _write_parquet(folder: Path, table: pa.Table, batch: int) -> None:
    name = f"part-{batch:012d}.parquet"
    with disk_errors(name):
        hidden = folder / f".{name}.tmp"
        pa.parquet.write_table(table, hidden)
        os.replace(hidden, folder / name)
        manifest = {"batch": batch, "files": [name], "rows": table.num_rows}
        draft = folder / _MANIFESTS / f".{batch:012d}.tmp"
        draft.write_text(json.dumps(manifest))
        os.replace(draft, folder / _MANIFESTS / f"{batch:012d}.json")


def claim(folder: Path, owner: str) -> None:
    """One query per directory: a second one would mix its rows in."""
    marks = folder / _MANIFESTS
    marks.mkdir(parents=True, exist_ok=True)
    mark = marks / "owner"
    if not mark.exists():
        draft = marks / f".owner.{uuid4().hex}.tmp"
        draft.write_text(owner)
        with suppress(FileExistsError):  # whole or not at all, and the first one's
            os.link(draft, mark)
        draft.unlink()
    if mark.read_text() != owner:
        raise InvalidSetting(
            f'directory "{folder}" is the sink of another query', hint="Give each query a directory of its own."
        )


def release(folder: Path, owner: str) -> None:
    """Give a directory back that nothing was delivered to."""
    mark = folder / _MANIFESTS / "owner"
    if mark.exists() and mark.read_text() == owner:
        mark.unlink()
