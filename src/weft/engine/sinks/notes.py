"""Durable notes on the sinks of queries: how far each sink has got, and which batches it has missed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.engine.core import Core
from weft.engine.sinks.sinks import ParquetSink, Sink, claim, release
from weft.plan.changelog import QueryId, QueryRecord
from weft.storage.directory import IDENTITY_FILE, Directory
from weft.storage.ended_queries import is_id
from weft.storage.state_errors import missing

_FOLDER = "sinks"
_MOST_GAPS = 1000
"""The number of gaps that are remembered per sink; older gaps are forgotten."""


@dataclass(slots=True)
class SinkNote:
    """The progress of a query's sink, as written to `sinks/<query>.json`."""

    query: QueryId
    delivered: int
    """The first batch that the sink has not received."""
    parquet: str | None = None
    """The directory of a Parquet sink; None for a callback, which only the user's program has."""
    failed: str = ""
    """Why nothing is delivered until somebody resumes the sink; empty if the sink has not failed."""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    """Batches that were never delivered: `from`, `until` (exclusive) and `reason`."""

    def save(self, directory: Directory) -> None:
        """Write the note durably."""
        value = {"delivered": self.delivered, "failed": self.failed, "gaps": self.gaps}
        if self.parquet is not None:
            value["parquet"] = self.parquet
        directory.write_json(value, _FOLDER, self.query + ".json")

    def skip_to(self, batch: int, *, created: int) -> None:
        """Continue with `batch` and note a gap if batches since `created`, the query's first, are skipped."""
        self.delivered = max(self.delivered, created)
        if batch > self.delivered:
            reason = self.failed or "results were not kept for as long"
            gap = {"from": self.delivered, "until": batch, "reason": reason}
            self.gaps = [*self.gaps, gap][-_MOST_GAPS:]
            self.delivered = batch
        self.failed = ""


def read_note(directory: Directory, query: QueryId) -> SinkNote | None:
    """Return the note on a query's sink; None if the query has no sink."""
    value = directory.read_json(_FOLDER, query + ".json")
    if value is None:
        return None
    return SinkNote(
        query, int(value["delivered"]), value.get("parquet"), value.get("failed", ""), value.get("gaps", [])
    )


def new_note(core: Core, query: QueryId, sink: Sink) -> SinkNote:
    """Return the note on a new sink, which starts with its query, or at its end if an earlier sink got all rows."""
    path = sink.path if isinstance(sink, ParquetSink) else None
    with core.lock:
        record = core.roster.records.get(query)
        first = core.next_batch if record is None else record.created
        if record is not None and record.ended is not None and core.roster.ended.was_delivered(query):
            first = record.ended
    return SinkNote(query, first, path)


def noted(directory: Directory) -> list[QueryId]:
    """Return the queries that have a note on a sink."""
    return [QueryId(path.stem) for path in directory.path(_FOLDER).glob("q*.json") if is_id(path.stem)]


def check_noted(core: Core) -> None:
    """Raise StateCorrupt if the note of a query's sink is missing, because delivery would silently stop without it."""
    present = set(noted(core.directory))
    for query in sorted(core.roster.sinks - present):
        record = core.roster.records.get(query)
        # A sink that has received everything has no note; a crash may have come before the next checkpoint.
        if record is None or (record.ended is not None and core.roster.ended.was_delivered(query)):
            core.roster.sinks.discard(query)
        else:
            raise missing(f"{_FOLDER}/{query}.json")


def finish_note(core: Core, record: QueryRecord) -> None:
    """Write to the record of an ended query that its sink has received everything, then remove the note."""
    core.roster.ended.put([record], delivered=True)
    _remove(core.directory, record.id)
    with core.lock:
        core.roster.sinks.discard(record.id)


def _remove(directory: Directory, query: QueryId) -> None:
    """Remove the note on a sink; its directory keeps the name of its owner."""
    directory.path(_FOLDER, query + ".json").unlink(missing_ok=True)


def forget(directory: Directory, query: QueryId) -> None:
    """Remove the note and the claim of a query that never took effect, because another query may get its id."""
    note = read_note(directory, query)
    if note is not None and note.parquet is not None:
        release(Path(note.parquet), _owner(directory, query), _by_path(directory, query))
    _remove(directory, query)


def give_back(core: Core) -> None:
    """Forget, after a crash, the sinks of queries that are not on record. Call this before creating queries."""
    for query in noted(core.directory):
        if query not in core.roster.records:
            forget(core.directory, query)


def claim_for(core: Core, query: QueryId, sink: Sink) -> None:
    """Claim the directory of a Parquet sink for one query; raises InvalidSetting if another query owns it."""
    if isinstance(sink, ParquetSink):
        owner, former = _owner(core.directory, query), _by_path(core.directory, query)
        claim(Path(sink.path), owner, once=former)


def _by_path(directory: Directory, query: QueryId) -> str:
    """Return the owner name of a query in earlier versions, which contains the path of the state directory."""
    return f"{directory.root}:{query}"


def _owner(directory: Directory, query: QueryId) -> str:
    """Return the owner name of a query, which contains the id of the state directory and so survives its move."""
    identity = directory.read_json(IDENTITY_FILE)
    if identity is None:
        raise missing(IDENTITY_FILE)
    return f"{identity['id']}:{query}"
