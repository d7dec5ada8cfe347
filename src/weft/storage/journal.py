"""The journal: changelog, manifests and checkpoints, each written atomically and in order.

`changelog/b` contains the changes in effect from batch b on, `commits/b` is the manifest of batch b, and a checkpoint
summarizes everything before it. Older manifests, which are needed to read results, are kept in packs (`packs.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from weft.plan.changelog import Change, Failure, QueryId, QueryRecord
from weft.plan.key import StoreId
from weft.plan.slots import Slots
from weft.storage.bucket import Bucket
from weft.storage.chain import ChainReader
from weft.storage.directory import Directory, flush_folder, number_name
from weft.storage.head import Head, Link
from weft.storage.packs import PACKS, Pack, PackName, choose_pack_merges, find_packed, merge_packs, write_pack
from weft.storage.result_files import Segment, WindowResult
from weft.storage.sealed_json import unseal
from weft.storage.state_errors import missing, unreadable

T = TypeVar("T")
_log = logging.getLogger("weft")


@dataclass(frozen=True, slots=True)
class StreamTotals:
    """Counts of the rows of one stream in one batch."""

    rows: int
    late: int
    timeless: int
    max_time: int | None
    bad_files: tuple[str, ...] = ()
    ahead: int = 0
    """Rows set aside because their event time is too far ahead of the clock."""
    missed: int = 0
    """Rows too late for a query over several streams that had stopped waiting for this stream, which was idle."""
    bad_rows: int = 0
    """Rows set aside because they cannot be read as declared. They are not included in `rows`."""

    @property
    def counted(self) -> int:
        """The number of rows with a usable event time: neither missing nor too far ahead of the clock."""
        return self.rows - self.timeless - self.ahead


@dataclass(frozen=True, slots=True)
class Manifest:
    """The record of a committed batch. For readers, only files that a manifest names exist."""

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
    """By set of streams, the event time up to which windows are closed after this batch."""
    open: tuple[str, ...] = ()
    """Files with rows or cells of sessions that are still open."""
    complete: tuple[tuple[StoreId, Slots], ...] = ()
    """Stored joins after this batch, and the slots for which each contains all combinations."""
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of the source files that the batch read, by stream."""
    offsets: tuple[tuple[str, int], ...] = ()
    """By DataFrame stream, the number of the Spark micro-batch that the batch contains."""
    freed: tuple[str, ...] = ()
    """Buckets that became unreachable with the batch before. From this batch on they are not part of the state."""
    lasting: tuple[str, ...] = ()
    """The files in `merged_away` to which stored joins still refer. A later manifest names them as `freed`."""

    def result_files(self) -> frozenset[str]:
        """Return the files that are needed to read the results of this batch."""
        files = {bucket.path for bucket in self.selected} | set(self.copied)
        for segment in self.segments:
            files |= {segment.path} | segment.references()
        for result in self.windows:
            files |= {result.path, *(ref.path for ref in result.refs)}
        return frozenset(files)

    def own_files(self) -> frozenset[str]:
        """Return the result files that this batch wrote and that neither other batches nor the state need."""
        folder, state = f"{number_name(self.batch)}/", {bucket.path for bucket in self.buckets}
        return frozenset(path for path in self.result_files() if path.startswith(folder) and path not in state)

    def named_files(self) -> frozenset[str]:
        """Return all files that this batch wrote. Other files in its folder are left over from failed attempts."""
        return self.own_files() | {bucket.path for bucket in self.buckets}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value that is written to `commits/`."""
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
            "files": dict(self.files),
            "offsets": dict(self.offsets),
            "freed": self.freed,
            "lasting": self.lasting,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Manifest:
        """Parse the output of `to_json`."""
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
            files=tuple((stream, tuple(names)) for stream, names in value["files"].items()),
            offsets=tuple(value["offsets"].items()),
            freed=tuple(value["freed"]),
            lasting=tuple(value.get("lasting", ())),
        )


def _totals(value: dict[str, Any]) -> StreamTotals:
    return StreamTotals(**{**value, "bad_files": tuple(value["bad_files"])})


def record_to_json(record: QueryRecord) -> dict[str, Any]:
    """Return the JSON value of a query's record."""
    return asdict(record)


def record_from_json(value: dict[str, Any]) -> QueryRecord:
    """Parse the output of `record_to_json`."""
    tuples = {name: tuple(value[name]) for name in ("route", "stores", "streams")}
    return QueryRecord(**{**value, "id": QueryId(value["id"])} | tuples)


class Journal:
    """The changelog, manifests and checkpoints of a state directory.

    Changes and manifests are entries of one chain: each entry contains its number and the digest of the entry before
    it, and the head contains the number of entries. A missing, truncated or changed entry is therefore detected.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._head = Head(directory.root)
        self._link = Link()
        self._summed_up = Link()
        """The position up to which the latest checkpoint covers the chain."""
        self._packs: tuple[PackName, ...] = ()

    # ---- writing

    def write_change(self, change: Change) -> None:
        """Append a change to the changelog of its batch, durably and atomically."""
        value = {
            "created": [record_to_json(record) for record in change.created],
            "dropped": change.dropped,
            "failed": [asdict(failure) for failure in change.failed],
            "declared": change.declared,
            "watermarks": change.watermarks,
            "sinks": change.sinks,
        }
        entry = value | {"entry": asdict(self._link)}
        self._advance(self._directory.append_json(entry, "changelog", number_name(change.batch, ".jsonl")))

    def write_manifest(self, manifest: Manifest) -> None:
        """Commit a batch durably: its files exist for readers from here on."""
        entry = manifest.to_json() | {"entry": asdict(self._link)}
        self._advance(self._directory.create_json(entry, *_commit(manifest.batch)))

    @property
    def length(self) -> int:
        """The number of entries since the latest checkpoint, which a restart has to read."""
        return self._link.entries - self._summed_up.entries

    def _advance(self, digest: str) -> None:
        self._link = Link(self._link.entries + 1, digest)
        try:
            self._head.advance(self._link)
        except OSError as error:  # the entry is valid nevertheless: the head may lag behind
            _log.warning("the head of the journal cannot be written: %s", error)

    @property
    def trimmed(self) -> int:
        """Results of batches before this one have been discarded."""
        return self._head.record.trimmed

    def trim(self, before: int) -> None:
        """Record durably that results of batches older than `before` are discarded."""
        self._head.trim(before)

    def write_checkpoint(
        self, next_batch: int, value: dict[str, Any], *, first: int, small: Small = lambda _: ()
    ) -> None:
        """Write a checkpoint that covers everything before batch `next_batch` and the changes for `next_batch`.

        Manifests of batches from `first` on, whose results are kept, are packed together with their `small` files.
        Files are removed once their replacement is durable; their numbers identify those that remain after a crash.
        """
        loose = self._directory.numbered("commits")
        packed, moved = self._pack(loose, first, small)
        packs = self._merged([pack for pack in (*self._packs, *packed) if pack.last >= first], next_batch - first)
        value = value | {
            "first_result": first,
            "packs": [[pack.name, pack.bytes] for pack in packs],
            "journal": asdict(self._link),
        }
        self._directory.write_json(value, "checkpoints", number_name(next_batch, ".json"))
        flush_folder(self._directory.path("checkpoints"))
        self._packs, self._summed_up = tuple(packs), self._link
        for path in (*(path for _, path in loose), *moved):
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in moved}:
            with suppress(OSError):
                folder.rmdir()
        self._remove_old(next_batch, changes_until=next_batch)

    def _pack(self, loose: Sequence[tuple[int, Path]], first: int, small: Small) -> tuple[list[PackName], list[Path]]:
        """Pack loose manifests and their small files. Return the new pack, if any, and the paths of the small files."""
        manifests = [(batch, path.read_bytes()) for batch, path in loose if batch >= first]
        if not manifests:
            return [], []
        moved: list[Path] = []

        def members() -> Iterator[tuple[str, bytes]]:
            left = PACKED_BYTES
            for batch, data in manifests:
                yield "/".join(_commit(batch)), data
                for name in small(self.read_manifest(batch)):
                    path = self._directory.path("data", *name.split("/"))
                    with suppress(FileNotFoundError):
                        size = path.stat().st_size
                        if size <= min(SMALL, left):
                            left -= size
                            yield name, path.read_bytes()
                            moved.append(path)

        folder = self._directory.path(PACKS)
        return [write_pack(folder, manifests[0][0], manifests[-1][0], members())], moved

    def _merged(self, packs: list[PackName], retained: int) -> list[PackName]:
        for run in choose_pack_merges(packs, retained):
            at = packs.index(run[0])
            packs = [*packs[:at], merge_packs(self._directory.path(PACKS), run), *packs[at + len(run) :]]
        return packs

    def _remove_old(self, next_batch: int, *, changes_until: int) -> None:
        """Remove files that the checkpoint of batch `next_batch` replaces, and changelogs up to `changes_until`."""
        for folder, last in (
            ("checkpoints", next_batch - 1),
            ("changelog", changes_until),
            ("commits", next_batch - 1),
        ):
            for number, path in self._directory.numbered(folder):
                if number <= last:
                    path.unlink(missing_ok=True)
        kept = {pack.name for pack in self._packs}
        for path in self._directory.path(PACKS).iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)

    # ---- reading

    def read_manifest(self, batch: int) -> Manifest:
        """Read the manifest of a batch whose results are kept, from its own file or from a pack."""
        name = "/".join(_commit(batch))
        sealed = self._directory.read_sealed(*_commit(batch))
        if sealed is None:
            packed = find_packed(self._directory.path(PACKS), name)
            if packed is None:
                raise missing(name)
            try:
                sealed = unseal(name, bytes(packed[0]))
            except ValueError as error:
                raise unreadable(f"{packed[1]}: {name}", error) from error
        return _parsed(name, Manifest.from_json, sealed[0])

    def read_checkpoint(self) -> tuple[int, dict[str, Any] | None]:
        """Return the last batch before the latest checkpoint and its value; (-1, None) without a checkpoint."""
        checkpoints = self._directory.numbered("checkpoints")
        if not checkpoints:
            return -1, None
        number, path = checkpoints[-1]
        value = self._directory.read_json("checkpoints", path.name)
        self._packs = tuple(PackName(name, size) for name, size in value["packs"])
        for pack in self._packs:
            pack_path = self._directory.path(PACKS, pack.name)
            if not pack_path.exists():
                raise missing(f"{PACKS}/{pack.name}")
            Pack(pack_path)
        self._link = self._summed_up = Link(**value["journal"])
        return number - 1, value

    def history(self, *, after: int) -> Iterator[Change | Manifest]:
        """Yield the changes and manifests after the checkpoint of batch `after` in order, and remove incomplete entries
        that a crash left. Raise StateCorrupt if an entry is missing or was changed."""
        reading = ChainReader(self._directory, self._link, self._head.record.link, after)
        for entry in reading.entries():
            if entry.is_change:
                yield _parsed(entry.file, _change, entry.value)
            else:
                yield _parsed(entry.file, Manifest.from_json, entry.value)
        reading.check_end()
        self._link = reading.link
        reading.remove_torn()
        self._remove_old(after + 1, changes_until=after)


Small = Callable[[Manifest], Iterable[str]]
"""A function that returns the files of a manifest that may be packed."""
SMALL = 256 << 10
"""Files up to this size in bytes are packed."""
PACKED_BYTES = 64 << 20
"""Maximum bytes of small files, not counting manifests, that one checkpoint packs."""


def _commit(batch: int) -> tuple[str, str]:
    return "commits", number_name(batch, ".json")


def _change(value: dict[str, Any]) -> Change:
    return Change(
        value["batch"],
        tuple(record_from_json(record) for record in value["created"]),
        tuple(QueryId(query) for query in value["dropped"]),
        tuple(Failure(**{**failure, "query": QueryId(failure["query"])}) for failure in value["failed"]),
        tuple(value["declared"]),
        tuple((stream, time) for stream, time in value["watermarks"]),
        tuple(QueryId(query) for query in value["sinks"]),
    )


def _parsed(name: str, parse: Callable[[dict[str, Any]], T], value: dict[str, Any]) -> T:
    """Parse the value of a file. A file written by another release may lack fields."""
    try:
        return parse(value)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(name, error) from error
