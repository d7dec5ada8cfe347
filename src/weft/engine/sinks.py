"""Sinks: rows of single queries to the outside, behind the batches, so that a slow sink never holds one up."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from weft.errors import InvalidSetting
from weft.plan.changelog import QueryId
from weft.runtime.results import to_rows
from weft.state.directory import disk_errors

if TYPE_CHECKING:
    from weft.engine.engine import Engine
    from weft.engine.query import Query

_log = logging.getLogger("weft.sinks")
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


class Deliveries:
    """Brings committed rows to sinks in a thread of its own; remembers how far each has got."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sinks: dict[QueryId, tuple[Query, Sink]] = {}
        self._errors: dict[QueryId, str] = {}
        self._thread: threading.Thread | None = None
        self._stopping = False

    def attach(self, query: Query, sink: Sink) -> None:
        """Deliver to a sink from where this query's deliveries stopped last."""
        directory = self._engine.core.directory
        saved = directory.read_json("sinks", query.id + ".json") or {"delivered": 0}
        if isinstance(sink, ParquetSink):
            _claim(Path(sink.path), f"{directory.root}:{query.id}")
            saved["parquet"] = sink.path
        directory.write_json(saved, "sinks", query.id + ".json")
        self._sinks[query.id] = (query, sink)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="weft-sinks", daemon=True)
            self._thread.start()

    def restore(self) -> None:
        """Attach again what needs nothing from the user's program."""
        directory = self._engine.core.directory
        for path in directory.path("sinks").glob("q*.json"):
            saved, query = directory.read_json("sinks", path.name), QueryId(path.stem)
            if query not in self._engine.core.roster.records:
                path.unlink()  # its query was never in effect, and another one will get its id
                if saved and "parquet" in saved:
                    _release(Path(saved["parquet"]), f"{directory.root}:{query}")
            elif saved and "parquet" in saved:
                self.attach(self._engine.query_by_id(query), ParquetSink(saved["parquet"]))

    def errors(self) -> dict[QueryId, str]:
        """The last error of each sink that is failing now."""
        return dict(self._errors)

    def flush(self) -> None:
        """Deliver everything that is committed now."""
        for query, sink in list(self._sinks.values()):
            self._deliver(query, sink)

    def oldest_undelivered(self) -> int | None:
        """The first batch some sink still needs."""
        cursors = [self._cursor(query_id) for query_id in self._sinks]
        return min(cursors, default=None)

    def stop(self) -> None:
        """Deliver what is committed and end the thread."""
        self._stopping = True
        if self._thread is not None:
            with self._engine.core.lock:
                self._engine.core.committed.notify_all()
            self._thread.join()
            self._thread = None
            self.flush()
        self._stopping = False

    def _run(self) -> None:
        core = self._engine.core
        seen = -1
        while not self._stopping:
            with core.lock:
                if core.next_batch == seen:
                    core.committed.wait(0.5)
                seen = core.next_batch
            self.flush()

    def _cursor(self, query_id: QueryId) -> int:
        return int((self._engine.core.directory.read_json("sinks", query_id + ".json") or {})["delivered"])

    def _deliver(self, query: Query, sink: Sink) -> None:
        directory = self._engine.core.directory
        saved = directory.read_json("sinks", query.id + ".json")
        with self._engine.core.lock:
            batches = [m.batch for m in self._engine.core.inventory.results if m.batch >= saved["delivered"]]
        try:
            for batch in batches:
                tables = list(query.tables(batch, batch + 1))
                if tables:
                    _hand_over(sink, pa.concat_tables(tables), batch)
                directory.write_json(saved | {"delivered": batch + 1}, "sinks", query.id + ".json")
            self._errors.pop(query.id, None)
        except Exception as error:
            self._errors[query.id] = str(error)
            _log.warning("sink failed", extra={"query": query.name, "error": str(error)})


def _hand_over(sink: Sink, table: pa.Table, batch: int) -> None:
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


def _claim(folder: Path, owner: str) -> None:
    """One query per directory: a second one would mix its rows in."""
    marks = folder / _MANIFESTS
    marks.mkdir(parents=True, exist_ok=True)
    mark = marks / "owner"
    if not mark.exists():
        mark.write_text(owner)
    elif mark.read_text() != owner:
        raise InvalidSetting(
            f'directory "{folder}" is the sink of another query', hint="Give each query a directory of its own."
        )


def _release(folder: Path, owner: str) -> None:
    """Give a directory back that nothing was delivered to."""
    mark = folder / _MANIFESTS / "owner"
    if mark.exists() and mark.read_text() == owner:
        mark.unlink()
