"""Changelogs, manifests and checkpoints: what happened, in order, put in place atomically.

`changelog/b` holds the requests in effect from batch b on; `commits/b` says what batch b made; a checkpoint sums up
everything before it. Older manifests are packed, many to a file, because results are read from them (`packs.py`).
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
from weft.storage.chain import Reading
from weft.storage.directory import Directory, flush_folder, missing, number_name, unreadable
from weft.storage.head import Head, Link
from weft.storage.packs import PACKS, Pack, PackName, choose_pack_merges, find_packed, merge_packs, write_pack
from weft.storage.result_files import Segment, WindowResult
from weft.storage.sealed_json import unseal

T = TypeVar("T")
_log = logging.getLogger("weft")


@dataclass(frozen=True, slots=True)
class StreamTotals:
    """Rows of one stream in one batch."""

    rows: int
    late: int
    timeless: int
    max_time: int | None
    bad_files: tuple[str, ...] = ()
    ahead: int = 0
    """Rows set aside because their event time is too far ahead of the clock."""
    missed: int = 0
    """Rows that came too late for some query over other streams, too, which did not wait for theirs."""
    bad_rows: int = 0
    """Rows that were set aside because they cannot be read as declared; they are not among `rows`."""

    @property
    def counted(self) -> int:
        """Rows whose event time counts."""
        return self.rows - self.timeless - self.ahead


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
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Files that were read, by stream."""
    offsets: tuple[tuple[str, int], ...] = ()
    """Micro-batches of DataFrame streams whose rows are in it."""
    freed: tuple[str, ...] = ()
    """Buckets that were found to be out of reach after the batch before: they are not in the state from here on."""
    lasting: tuple[str, ...] = ()
    """Of `merged_away`: files that intermediate results refer to. They leave the state later, and are `freed` then."""

    def result_files(self) -> frozenset[str]:
        """Files that readers of this batch's results need."""
        files = {bucket.path for bucket in self.selected} | set(self.copied)
        for segment in self.segments:
            files |= {segment.path} | segment.references()
        for result in self.windows:
            files |= {result.path, *(ref.path for ref in result.refs)}
        return frozenset(files)

    def own_files(self) -> frozenset[str]:
        """Files of results that this batch made: no other batch's results need them, nor does the state."""
        mine, state = f"{number_name(self.batch)}/", {bucket.path for bucket in self.buckets}
        return frozenset(path for path in self.result_files() if path.startswith(mine) and path not in state)

    def named_files(self) -> frozenset[str]:
        """Everything that this batch made; whatever else there is in its folder is of attempts that failed."""
        return self.own_files() | {bucket.path for bucket in self.buckets}

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
            "files": dict(self.files),
            "offsets": dict(self.offsets),
            "freed": self.freed,
            "lasting": self.lasting,
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
            files=tuple((stream, tuple(names)) for stream, names in value["files"].items()),
            offsets=tuple(value["offsets"].items()),
            freed=tuple(value["freed"]),
            lasting=tuple(value.get("lasting", ())),
        )


def _totals(value: dict[str, Any]) -> StreamTotals:
    return StreamTotals(**{**value, "bad_files": tuple(value["bad_files"])})


def record_to_json(record: QueryRecord) -> dict[str, Any]:
    """A query's record as the changelog holds it."""
    return asdict(record)


def record_from_json(value: dict[str, Any]) -> QueryRecord:
    """The inverse of `record_to_json`."""
    tuples = {name: tuple(value[name]) for name in ("route", "stores", "streams")}
    return QueryRecord(**{**value, "id": QueryId(value["id"])} | tuples)


class Journal:
    """Reads and writes the changelog, manifest and checkpoint files of a state directory.

    Changes and manifests are entries of one chain: each has its number and the digest of the one before it, and the
    head says how many there are. So whatever is missing, is cut short or has changed is noticed.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._head = Head(directory.root)
        self._link = Link()
        self._summed_up = Link()
        """The place up to which the checkpoint has seen everything."""
        self._packs: tuple[PackName, ...] = ()

    # ---- writing

    def write_change(self, change: Change) -> None:
        """Append one atomic entry to the changelog of its batch."""
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
        """Commit a batch: from here on its files exist."""
        entry = manifest.to_json() | {"entry": asdict(self._link)}
        self._advance(self._directory.create_json(entry, *_commit(manifest.batch)))

    @property
    def length(self) -> int:
        """Entries since the last checkpoint: so many are read at the next opening."""
        return self._link.entries - self._summed_up.entries

    def _advance(self, digest: str) -> None:
        self._link = Link(self._link.entries + 1, digest)
        try:
            self._head.advance(self._link)
        except OSError as error:  # the entry counts all the same, and the head may be behind
            _log.warning("the head of the journal cannot be written: %s", error)

    @property
    def trimmed(self) -> int:
        """Results of batches before this one were given up."""
        return self._head.record.trimmed

    def trim(self, before: int) -> None:
        """Give up results of batches before this one, durably."""
        self._head.trim(before)

    def write_checkpoint(
        self, next_batch: int, value: dict[str, Any], *, first: int, small: Small = lambda _: ()
    ) -> None:
        """Sum up everything that was written, which is before batch `next_batch` or a change for it, and pack the
        manifests of results that are kept, those of batches from `first` on, each with its `small` files. What is
        summed up or packed is removed when it is durably replaced; what a crash leaves of it is known by its number."""
        loose = self._directory.numbered("commits")
        packed, moved = self._pack(loose, first, small)
        packs = self._merged([each for each in (*self._packs, *packed) if each.last >= first], next_batch - first)
        value = value | {
            "first_result": first,
            "packs": [[each.name, each.bytes] for each in packs],
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
        """A pack of loose manifests and their small files, and where those are now."""
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
        for some in choose_pack_merges(packs, retained):
            at = packs.index(some[0])
            packs = [*packs[:at], merge_packs(self._directory.path(PACKS), some), *packs[at + len(some) :]]
        return packs

    def _remove_old(self, next_batch: int, *, changes_until: int) -> None:
        """Remove what the checkpoint before this batch has made superfluous, and changes for batches up to another."""
        for folder, last in (
            ("checkpoints", next_batch - 1),
            ("changelog", changes_until),
            ("commits", next_batch - 1),
        ):
            for number, path in self._directory.numbered(folder):
                if number <= last:
                    path.unlink(missing_ok=True)
        kept = {each.name for each in self._packs}
        for path in self._directory.path(PACKS).iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)

    # ---- reading

    def read_manifest(self, batch: int) -> Manifest:
        """The manifest of a batch whose results are kept, from its own file or from a pack."""
        name = "/".join(_commit(batch))
        found = self._directory.read_sealed(*_commit(batch))
        if found is None:
            packed = find_packed(self._directory.path(PACKS), name)
            if packed is None:
                raise missing(name)
            try:
                found = unseal(name, bytes(packed[0]))
            except ValueError as error:
                raise unreadable(f"{packed[1]}: {name}", error) from error
        return _parsed(name, Manifest.from_json, found[0])

    def read_checkpoint(self) -> tuple[int, dict[str, Any] | None]:
        """The latest checkpoint and the last batch before it; (-1, None) when there is none."""
        found = self._directory.numbered("checkpoints")
        if not found:
            return -1, None
        number, path = found[-1]
        value = self._directory.read_json("checkpoints", path.name)
        self._packs = tuple(PackName(name, size) for name, size in value["packs"])
        for each in self._packs:
            pack = self._directory.path(PACKS, each.name)
            if not pack.exists():
                raise missing(f"{PACKS}/{each.name}")
            Pack(pack)
        self._link = self._summed_up = Link(**value["journal"])
        return number - 1, value

    def history(self, *, after: int) -> Iterator[Change | Manifest]:
        """All changes and manifests that the checkpoint behind batch `after` has not seen, in their order. Raises
        StateCorrupt where any that was written is missing, or is not as it was written."""
        reading = Reading(self._directory, self._link, self._head.record.link, after)
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
"""The files of a manifest that may be packed."""
SMALL = 256 << 10
"""Files up to this size are packed; larger ones are worth their own place."""
PACKED_BYTES = 64 << 20
"""What is packed at once, beside manifests."""


def _commit(batch: int) -> tuple[str, str]:
    return "commits", number_name(batch, ".json")


def _change(value: dict[str, Any]) -> Change:
    return Change(
        value["batch"],
        tuple(record_from_json(record) for record in value["created"]),
        tuple(QueryId(query) for query in value["dropped"]),
        tuple(Failure(**{**each, "query": QueryId(each["query"])}) for each in value["failed"]),
        tuple(value["declared"]),
        tuple((stream, time) for stream, time in value["watermarks"]),
        tuple(QueryId(query) for query in value["sinks"]),
    )


def _parsed(name: str, parse: Callable[[dict[str, Any]], T], value: dict[str, Any]) -> T:
    """What a file says; one that another release wrote may lack something."""
    try:
        return parse(value)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(name, error) from error
