"""Sinks: where the rows of single queries go outside of weft."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet

from weft.errors import InvalidSetting
from weft.plan.paths import local_path
from weft.spark.select_list import to_rows
from weft.storage.directory import disk_errors

_MANIFESTS = "_weft"
_GAPS = "gaps.json"
_TOGETHER_ROWS = 50_000
_TOGETHER_BYTES = 32 << 20
"""What is handed over at once, at most: a row group, or a call."""


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """A directory of Parquet files, one per batch with rows; exactly once.

    A file appears whole (written aside, then renamed) under a name that its batch determines, and `_weft/` has a
    manifest for each: a batch delivered again after a crash replaces its own file. Both are on disk before the batch
    counts as delivered. Batches that could not be delivered, if there are any, are in `_weft/gaps.json`.
    """

    path: str


@dataclass(frozen=True, slots=True)
class CallbackSink:
    """A Python function `fn(rows, batch)`; at least once: after a crash the last batch may be delivered again.

    A batch with very many rows comes in several calls.
    """

    function: Callable[[Sequence[Any], int], None]


Sink = ParquetSink | CallbackSink


def parquet(path: str | os.PathLike[str]) -> ParquetSink:
    """A sink that writes a query's rows as Parquet files into a directory of its own, exactly once."""
    hint = "A sink writes to a directory of this machine; mount what is elsewhere, or copy the files from a directory."
    return ParquetSink(os.path.abspath(local_path(os.fspath(path), "sink path", hint=hint)))


def callback(function: Callable[[Sequence[Any], int], None]) -> CallbackSink:
    """A sink that calls `function(rows, batch)`, at least once; attach it again after a restart."""
    return CallbackSink(function)


def hand_over(sink: Sink, tables: Iterable[pa.Table], batch: int) -> int:
    """Give a sink a query's rows of a batch, a bounded number at once; returns how many there were."""
    rows = 0
    match sink:
        case CallbackSink(function=function):
            for table in _together(tables):
                function(list(to_rows(table)), batch)
                rows += table.num_rows
        case ParquetSink(path=path):
            rows = _write_parquet(Path(path), _together(tables), batch)
    return rows


def _together(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables that are neither small nor large."""
    group: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        for begin in range(0, table.num_rows, _TOGETHER_ROWS):
            piece = table.slice(begin, _TOGETHER_ROWS)
            if group and (rows + piece.num_rows > _TOGETHER_ROWS or size + piece.nbytes > _TOGETHER_BYTES):
                yield pa.concat_tables(group)
                group, rows, size = [], 0, 0
            group.append(piece)
            rows, size = rows + piece.num_rows, size + piece.nbytes
    if group:
        yield pa.concat_tables(group)


def _write_parquet(folder: Path, tables: Iterator[pa.Table], batch: int) -> int:
    first = next(tables, None)
    if first is None:
        return 0
    name = f"part-{batch:012d}.parquet"
    with disk_errors(name):
        hidden, rows = folder / f".{name}.tmp", int(first.num_rows)
        with pa.parquet.ParquetWriter(hidden, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table if table.schema.equals(first.schema) else table.cast(first.schema))
                rows += table.num_rows
        _put(hidden, folder / name)
        _write_json({"batch": batch, "files": [name], "rows": rows}, folder / _MANIFESTS / f"{batch:012d}.json")
    return rows


def write_gaps(sink: Sink, gaps: Sequence[dict[str, Any]]) -> None:
    """Say beside the rows which batches are missing among them, durably."""
    if isinstance(sink, ParquetSink) and gaps:
        with disk_errors(_GAPS):
            _write_json(list(gaps), Path(sink.path) / _MANIFESTS / _GAPS)


def _write_json(value: object, path: Path) -> None:
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(json.dumps(value))
    _put(draft, path)


def _put(draft: Path, path: Path) -> None:
    """Put a file in place so that it, and its name, survive a power failure."""
    _sync(draft)
    os.replace(draft, path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def claim(folder: Path, owner: str, *, once: str = "") -> None:
    """One query per directory: a second one would mix its rows in. `once` is what an owner was called before."""
    marks = folder / _MANIFESTS
    marks.mkdir(parents=True, exist_ok=True)
    mark = marks / "owner"
    if not mark.exists():
        draft = marks / f".owner.{uuid4().hex}.tmp"
        draft.write_text(owner)
        _sync(draft)
        with suppress(FileExistsError):  # whole or not at all, and the first one's
            os.link(draft, mark)
        draft.unlink()
    found = mark.read_text()
    if once and found == once:
        draft = marks / f".owner.{uuid4().hex}.tmp"
        draft.write_text(owner)
        _put(draft, mark)
    elif found != owner:
        raise InvalidSetting(
            f'directory "{folder}" is the sink of another query', hint="Give each query a directory of its own."
        )


def release(folder: Path, *owners: str) -> None:
    """Give a directory back that nothing was delivered to, whichever of its names the owner used."""
    mark = folder / _MANIFESTS / "owner"
    with suppress(OSError):
        if mark.read_text() in owners and not any(folder.glob("part-*.parquet")):
            mark.unlink()
