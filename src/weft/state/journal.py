"""Changelogs, manifests and checkpoints: what happened, in order, put in place atomically.

`changelog/b` holds the requests in effect from batch b on; `commits/b` says what batch b made; a checkpoint sums up
everything before it. Older manifests are packed, many to a file, because results are read from them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from weft.errors import StateCorrupt
from weft.plan.changelog import Change, Failure, QueryId, QueryRecord, Slots
from weft.plan.key import StoreId
from weft.state.bucket import Bucket
from weft.state.directory import Directory, disk_errors, number_name
from weft.state.segment import Segment, WindowResult


@dataclass(frozen=True, slots=True)
class StreamTotals:
    """Rows of one stream in one batch."""

    rows: int
    late: int
    timeless: int
    max_time: int | None
    bad_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything batch `batch` made: only files it names exist for readers."""

    batch: int
    at: float
    streams: tuple[tuple[str, StreamTotals], ...]
    buckets: tuple[Bucket, ...]
    merged_away: tuple[str, ...]
    segments: tuple[Segment, ...]
    copied: tuple[str, ...]
    selected: tuple[Bucket, ...]
    failed: tuple[tuple[QueryId, str], ...]
    pairs: int
    windows: tuple[WindowResult, ...] = ()
    closed: tuple[tuple[tuple[str, ...], int], ...] = ()
    """Up to where windows over some streams are ended after this batch."""
    open: tuple[str, ...] = ()
    """Files with rows or cells of sessions that have not ended."""
    complete: tuple[tuple[StoreId, Slots], ...] = ()
    """Stores of intermediate results after this batch, and for which slots they have everything."""

    def result_files(self) -> frozenset[str]:
        """Files that readers of this batch's results need."""
        files = {bucket.path for bucket in self.selected} | set(self.copied)
        for segment in self.segments:
            files |= {segment.path} | segment.references()
        for result in self.windows:
            files |= {result.path, *(ref.path for ref in result.refs)}
        return frozenset(files)

    def to_json(self) -> dict[str, Any]:
        """As written to `commits/`."""
        return {
            "batch": self.batch,
            "at": self.at,
            "streams": {name: asdict(totals) for name, totals in self.streams},
            "buckets": [bucket.to_json() for bucket in self.buckets],
            "merged_away": self.merged_away,
            "segments": [segment.to_json() for segment in self.segments],
            "copied": self.copied,
            "selected": [bucket.to_json() for bucket in self.selected],
            "failed": dict(self.failed),
            "pairs": self.pairs,
            "windows": [result.to_json() for result in self.windows],
            "closed": [[list(streams), until] for streams, until in self.closed],
            "open": self.open,
            "complete": {store: hex(slots) for store, slots in self.complete},
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Manifest:
        """The inverse of `to_json`."""
        return cls(
            batch=value["batch"],
            at=value["at"],
            streams=tuple((name, _totals(totals)) for name, totals in value["streams"].items()),
            buckets=tuple(Bucket.from_json(bucket) for bucket in value["buckets"]),
            merged_away=tuple(value["merged_away"]),
            segments=tuple(Segment.from_json(segment) for segment in value["segments"]),
            copied=tuple(value["copied"]),
            selected=tuple(Bucket.from_json(bucket) for bucket in value["selected"]),
            failed=tuple((QueryId(query), message) for query, message in value["failed"].items()),
            pairs=value["pairs"],
            windows=tuple(WindowResult.from_json(result) for result in value.get("windows", ())),
            closed=tuple((tuple(streams), until) for streams, until in value.get("closed", ())),
            open=tuple(value.get("open", ())),
            complete=tuple((StoreId(s), Slots(int(slots, 16))) for s, slots in value.get("complete", {}).items()),
        )


def _totals(value: dict[str, Any]) -> StreamTotals:
    return StreamTotals(**{**value, "bad_files": tuple(value["bad_files"])})


def record_to_json(record: QueryRecord) -> dict[str, Any]:
    """A query's record as the changelog holds it."""
    return asdict(record)


def record_from_json(value: dict[str, Any]) -> QueryRecord:
    """The inverse of `record_to_json`."""
    return QueryRecord(**{**value, "id": QueryId(value["id"]), "route": tuple(value["route"])})


class Journal:
    """Reads and writes the changelog, manifest and checkpoint files of a state directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def write_change(self, change: Change) -> None:
        """Append one atomic entry to the changelog of its batch."""
        value = {
            "created": [record_to_json(record) for record in change.created],
            "dropped": change.dropped,
            "failed": [asdict(failure) for failure in change.failed],
        }
        self._directory.append_json(value, "changelog", number_name(change.batch, ".jsonl"))

    def changes(self, *, after: int) -> Iterator[Change]:
        """All changes of batches later than `after`, in order."""
        for batch, path in self._directory.numbered("changelog"):
            if batch > after:
                for value in self._directory.read_json_lines("changelog", path.name):
                    created = tuple(record_from_json(record) for record in value["created"])
                    dropped = tuple(QueryId(query) for query in value["dropped"])
                    failed = (Failure(**{**each, "query": QueryId(each["query"])}) for each in value.get("failed", ()))
                    yield Change(batch, created, dropped, tuple(failed))

    def write_manifest(self, manifest: Manifest) -> None:
        """Commit a batch: from here on its files exist."""
        self._directory.write_json(manifest.to_json(), "commits", number_name(manifest.batch, ".json"))

    def manifests(self) -> Iterator[Manifest]:
        """All retained manifests in order, packed ones first."""
        seen = -1
        for folder in ("packs", "commits"):
            for _, path in self._directory.numbered(folder):
                values = self._directory.read_json_lines(folder, path.name) if folder == "packs" else [None]
                for value in values:
                    manifest = Manifest.from_json(value or self._directory.read_json(folder, path.name))
                    if manifest.batch > seen:
                        seen = manifest.batch
                        yield manifest

    def history(self, *, after: int) -> Iterator[Change | Manifest]:
        """Retained manifests up to batch `after`, then all changes and manifests later than it in their order.

        Raises StateCorrupt where a later batch is missing.
        """
        changes = deque(self.changes(after=after))
        for manifest in self.manifests():
            if manifest.batch > after + 1:
                raise StateCorrupt(
                    f"manifest of batch {after + 1} is missing", hint="Restore the state directory from a copy."
                )
            while changes and changes[0].batch <= manifest.batch:
                yield changes.popleft()
            yield manifest
            after = max(after, manifest.batch)
        yield from changes

    def write_checkpoint(self, batch: int, value: dict[str, Any]) -> None:
        """Sum up everything up to `batch`; older checkpoints and changelogs go."""
        self._directory.write_json(value, "checkpoints", number_name(batch, ".json"))
        for folder in ("checkpoints", "changelog"):
            for number, path in self._directory.numbered(folder):
                if number < batch or (folder == "changelog" and number == batch):
                    path.unlink(missing_ok=True)

    def read_checkpoint(self) -> tuple[int, dict[str, Any] | None]:
        """The latest checkpoint and its batch; (-1, None) when there is none."""
        found = self._directory.numbered("checkpoints")
        if not found:
            return -1, None
        batch, path = found[-1]
        return batch, self._directory.read_json("checkpoints", path.name)

    def pack(self) -> None:
        """Put the loose manifests into one file; safe to be cut short, since readers skip doubles."""
        loose = self._directory.numbered("commits")
        if not loose:
            return
        values = [self._directory.read_json("commits", path.name) for _, path in loose]
        path = self._directory.path("packs", number_name(loose[-1][0], ".jsonl"))
        with disk_errors(path.name):
            temporary = path.with_name(path.name + ".tmp")
            temporary.write_text("".join(json.dumps(value, separators=(",", ":")) + "\n" for value in values))
            temporary.replace(path)
        for _, old in loose:
            old.unlink(missing_ok=True)

    def forget_packs(self, *, before: int) -> None:
        """Remove packs all of whose manifests are older than batch `before`."""
        for last, path in self._directory.numbered("packs"):
            if last < before:
                path.unlink(missing_ok=True)
