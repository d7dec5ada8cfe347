"""Sinks: places outside weft to which the rows of single queries are delivered."""

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
"""Limits of the rows that are handed over at once, as a row group or in a call."""


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """A directory of Parquet files, one per batch with rows, with exactly-once delivery.

    The batch determines the name of its file, which appears complete (written under another name, then renamed), so a
    batch that is delivered again after a crash replaces its own file. `_weft/` has a manifest for each file. Both are
    on disk before the batch counts as delivered. `_weft/gaps.json` lists the batches that could not be delivered.
    """

    path: str


@dataclass(frozen=True, slots=True)
class CallbackSink:
    """A Python function `fn(rows, batch)`, with at-least-once delivery: a crash may repeat the last batch.

    A batch with very many rows comes in several calls.
    """

    function: Callable[[Sequence[Any], int], None]


Sink = ParquetSink | CallbackSink


def parquet(path: str | os.PathLike[str]) -> ParquetSink:
    """Return a sink that writes a query's rows as Parquet files into a directory of its own, exactly once."""
    hint = "A sink writes to a directory of this machine; mount what is elsewhere, or copy the files from a directory."
    return ParquetSink(os.path.abspath(local_path(os.fspath(path), "sink path", hint=hint)))


def callback(function: Callable[[Sequence[Any], int], None]) -> CallbackSink:
    """Return a sink that calls `function(rows, batch)`, at least once; attach it again after a restart."""
    return CallbackSink(function)


def hand_over(sink: Sink, tables: Iterable[pa.Table], batch: int) -> int:
    """Deliver the rows of a batch to a sink, a bounded number at once, and return the number of rows."""
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
    """Yield the same rows in tables that are neither small nor large."""
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
        draft, rows = folder / f".{name}.tmp", int(first.num_rows)
        with pa.parquet.ParquetWriter(draft, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table if table.schema.equals(first.schema) else table.cast(first.schema))
                rows += table.num_rows
        _put(draft, folder / name)
        _write_json({"batch": batch, "files": [name], "rows": rows}, folder / _MANIFESTS / f"{batch:012d}.json")
    return rows


def write_gaps(sink: Sink, gaps: Sequence[dict[str, Any]]) -> None:
    """Write durably, beside the rows of a Parquet sink, which batches are missing."""
    if isinstance(sink, ParquetSink) and gaps:
        with disk_errors(_GAPS):
            _write_json(list(gaps), Path(sink.path) / _MANIFESTS / _GAPS)


def _write_json(value: object, path: Path) -> None:
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(json.dumps(value))
    _put(draft, path)


def _put(draft: Path, path: Path) -> None:
    """Rename a draft to `path` so that the file and its name survive a power failure."""
    _sync(draft)
    os.replace(draft, path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def claim(folder: Path, owner: str, *, once: str = "") -> None:
    """Make `owner` the only owner of a directory, because two queries would mix their rows; raises InvalidSetting.

    `once` is the name that earlier versions gave to the owner.
    """
    metadata = folder / _MANIFESTS
    metadata.mkdir(parents=True, exist_ok=True)
    owner_file = metadata / "owner"
    if not owner_file.exists():
        draft = metadata / f".owner.{uuid4().hex}.tmp"
        draft.write_text(owner)
        _sync(draft)
        with suppress(FileExistsError):  # atomic: the file is complete, and the first owner wins
            os.link(draft, owner_file)
        draft.unlink()
    current = owner_file.read_text()
    if once and current == once:
        draft = metadata / f".owner.{uuid4().hex}.tmp"
        draft.write_text(owner)
        _put(draft, owner_file)
    elif current != owner:
        raise InvalidSetting(
            f'directory "{folder}" is the sink of another query', hint="Give each query a directory of its own."
        )


def release(folder: Path, *owners: str) -> None:
    """Release a directory to which nothing was delivered; `owners` are the names that its owner may have used."""
    owner_file = folder / _MANIFESTS / "owner"
    with suppress(OSError):
        if owner_file.read_text() in owners and not any(folder.glob("part-*.parquet")):
            owner_file.unlink()
