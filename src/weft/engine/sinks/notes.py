"""What is known durably of the sinks of queries: how far each has got, and what it has missed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.engine.core import Core
from weft.engine.sinks.sinks import ParquetSink, Sink, claim, release
from weft.plan.changelog import QueryId, QueryRecord
from weft.storage.directory import IDENTITY_FILE, Directory, missing
from weft.storage.ended_queries import is_id

_log = logging.getLogger("weft.sinks")
_FOLDER = "sinks"
_MOST_GAPS = 1000
"""Gaps that are remembered of one sink; who resumes one more often than that has the latest."""


@dataclass(slots=True)
class SinkNote:
    """A query's sink, as `sinks/<query>.json` has it."""

    query: QueryId
    delivered: int
    """The first batch that the sink has not had."""
    parquet: str | None = None
    """Where the files are; None for a callback, which only the user's program has."""
    failed: str = ""
    """Why nothing is delivered any more, until somebody resumes it."""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    """Batches that were never delivered: `from`, `until` (not included) and `reason`."""

    def save(self, directory: Directory) -> None:
        """Write it durably."""
        value = {"delivered": self.delivered, "failed": self.failed, "gaps": self.gaps}
        if self.parquet is not None:
            value["parquet"] = self.parquet
        directory.write_json(value, _FOLDER, self.query + ".json")

    def skip_to(self, batch: int, *, created: int) -> None:
        """Somebody knows that rows are missing, and wants those from `batch` on; before `created` there were none."""
        self.delivered = max(self.delivered, created)
        if batch > self.delivered:
            reason = self.failed or "results were not kept for as long"
            gap = {"from": self.delivered, "until": batch, "reason": reason}
            self.gaps = [*self.gaps, gap][-_MOST_GAPS:]
            self.delivered = batch
        self.failed = ""


def read_note(directory: Directory, query: QueryId) -> SinkNote | None:
    """What is known of a query's sink; None if it has none."""
    value = directory.read_json(_FOLDER, query + ".json")
    if value is None:
        return None
    return SinkNote(
        query, int(value["delivered"]), value.get("parquet"), value.get("failed", ""), value.get("gaps", [])
    )


def new_note(core: Core, query: QueryId, sink: Sink) -> SinkNote:
    """A sink that has had nothing: it begins with its query, or where an earlier one has had all of it."""
    path = sink.path if isinstance(sink, ParquetSink) else None
    with core.lock:
        record = core.roster.records.get(query)
        first = core.next_batch if record is None else record.created
        if record is not None and record.ended is not None and core.roster.ended.was_delivered(query):
            first = record.ended
    return SinkNote(query, first, path)


def noted(directory: Directory) -> list[QueryId]:
    """Queries that have a sink."""
    return [QueryId(path.stem) for path in directory.path(_FOLDER).glob("q*.json") if is_id(path.stem)]


def check_noted(core: Core) -> None:
    """Raise StateCorrupt if a query has a sink and the file is missing that says how far it has got: without it nothing
    would be delivered any more, and nobody would be told."""
    there = set(noted(core.directory))
    for query in sorted(core.roster.sinks - there):
        record = core.roster.records.get(query)
        # A sink that has had everything has no file; a crash may have come before that was summed up.
        if record is None or (record.ended is not None and core.roster.ended.was_delivered(query)):
            core.roster.sinks.discard(query)
        else:
            raise missing(f"{_FOLDER}/{query}.json")


def finish_note(core: Core, record: QueryRecord) -> None:
    """A query has ended and its sink has had everything: that is noted with its record, and then the file goes."""
    core.roster.ended.put([record], delivered=True)
    _remove(core.directory, record.id)
    with core.lock:
        core.roster.sinks.discard(record.id)


def _remove(directory: Directory, query: QueryId) -> None:
    """Forget a sink; whose its directory is stays written there."""
    directory.path(_FOLDER, query + ".json").unlink(missing_ok=True)


def forget(directory: Directory, query: QueryId) -> None:
    """Give back what a query that never was in effect had taken: another one may get its id."""
    note = read_note(directory, query)
    if note is not None and note.parquet is not None:
        release(Path(note.parquet), _owner(directory, query), _by_path(directory, query))
    _remove(directory, query)


def give_back(core: Core) -> None:
    """After a crash: forget the sinks of queries that are not on record. To be called before any is created."""
    for query in noted(core.directory):
        if query not in core.roster.records:
            forget(core.directory, query)


def claim_for(core: Core, query: QueryId, sink: Sink) -> None:
    """Make sure that a sink is a query's alone; raises if it cannot be."""
    if isinstance(sink, ParquetSink):
        owner, once = _owner(core.directory, query), _by_path(core.directory, query)
        claim(Path(sink.path), owner, once=once)


def _by_path(directory: Directory, query: QueryId) -> str:
    """What owners were called by earlier versions."""
    return f"{directory.root}:{query}"


def _owner(directory: Directory, query: QueryId) -> str:
    """Whose a directory is: the state directory has a name that it keeps wherever it is moved to."""
    known = directory.read_json(IDENTITY_FILE)
    if known is None:
        raise missing(IDENTITY_FILE)
    return f"{known['id']}:{query}"
