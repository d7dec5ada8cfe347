"""Reading and checking the chain of journal entries: changes and manifests in the order they were written."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import StateCorrupt
from weft.storage.directory import Directory, number_name
from weft.storage.head import Link
from weft.storage.state_errors import RESTORE, missing


@dataclass(frozen=True, slots=True)
class Entry:
    """A journal entry, with the file and the batch it belongs to and its digest."""

    file: str
    batch: int
    value: dict[str, Any]
    digest: str
    is_change: bool

    @property
    def number(self) -> int:
        """The number of entries before this one."""
        return int(self.value["entry"]["entries"])


class ChainReader:
    """A single pass over the entries of batches later than `after`, starting at position `link` of the chain."""

    def __init__(self, directory: Directory, link: Link, head: Link, after: int) -> None:
        self._directory = directory
        self.link = link
        self._head = head
        self._after = after
        self._following = after + 1
        """The batch whose manifest comes next."""
        self._torn: list[tuple[Path, int]] = []
        """Files whose last entry a crash cut short, with the number of bytes before that entry."""
        self._unread: StateCorrupt | None = None
        """Why the last manifest cannot be read. If the head does not count the manifest, a crash cut it short."""
        self._digests: dict[int, str] = {link.entries: link.digest}

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in order. Raise StateCorrupt where an entry does not follow the one before it."""
        changes = deque(self._changes())
        manifests = [commit for commit in self._directory.numbered("commits") if commit[0] > self._after]
        first = min(
            [batch for batch, _ in manifests[:1]] + [change.batch for change in changes if change.number][:1], default=0
        )
        if self._after < 0 and first > 0:
            raise missing(f"checkpoints/{number_name(first, '.json')}")
        for batch, path in manifests:
            if batch > self._following:
                raise missing(f"commits/{number_name(self._following, '.json')}")
            while changes and changes[0].batch <= batch:
                yield self._next(changes.popleft())
            if self._torn and _number(self._torn[0][0]) <= batch:
                raise _cut_short(self._torn[0][0], f"The manifest of batch {batch} was written after it.")
            try:
                sealed = self._directory.read_sealed("commits", path.name)
            except StateCorrupt as error:
                if changes or batch != manifests[-1][0]:
                    raise
                self._unread = error
                self._torn.append((path, 0))
                return
            assert sealed is not None
            yield self._next(Entry(f"commits/{path.name}", batch, *sealed, is_change=False))
            self._following = batch + 1
        while changes:
            yield self._next(changes.popleft())

    def _changes(self) -> Iterator[Entry]:
        for batch, path in self._directory.numbered("changelog"):
            if batch <= self._after:
                continue
            if self._torn:
                raise _cut_short(self._torn[0][0], f"The changelog of batch {batch} was written after it.")
            lines, size = self._directory.read_lines("changelog", path.name)
            for value, digest in lines:
                entry = Entry(f"changelog/{path.name}", batch, value | {"batch": batch}, digest, is_change=True)
                # After a crash, entries that the checkpoint already covers may not have been removed yet.
                if entry.number >= self.link.entries:
                    yield entry
            if size < path.stat().st_size:
                self._torn.append((path, size))

    def _next(self, entry: Entry) -> Entry:
        link = Link(**entry.value["entry"])
        if link.entries > self.link.entries and entry.batch > self._following:
            raise missing(f"commits/{number_name(self._following, '.json')}")
        if link.entries > self.link.entries:
            changelog = f"changelog/{number_name(entry.batch, '.jsonl')}"
            count = link.entries - self.link.entries
            raise StateCorrupt(
                f'state file "{changelog}" or the one before it is missing or cut short',
                detail=f"{count} entries that were written before those of {entry.file} are not there.",
                hint=RESTORE,
            )
        if link != self.link:
            raise StateCorrupt(
                f'state file "{entry.file}" does not follow the one before it',
                detail="It is of another time, or of another state directory.",
                hint=RESTORE,
            )
        self.link = Link(link.entries + 1, entry.digest)
        self._digests[self.link.entries] = entry.digest
        return entry

    def check_end(self) -> None:
        """Raise StateCorrupt if the head counts entries that were not read, or belongs to another journal."""
        head = self._head
        if head.entries > self.link.entries and self._unread is not None:
            raise self._unread
        if head.entries > self.link.entries:
            batch = self._following
            names = f'"changelog/{number_name(batch, ".jsonl")}" or "commits/{number_name(batch, ".json")}"'
            names += "" if self._digests.keys() - {0} else ", or the checkpoint,"
            raise StateCorrupt(
                f"state file {names} is missing or cut short",
                detail=f"There are {self.link.entries} entries, and {head.entries} were written, says the head.",
                hint=RESTORE,
            )
        if self._digests.get(head.entries, head.digest) != head.digest:
            raise StateCorrupt(
                "the journal is not the one that the head belongs to",
                detail=f"Entry {head.entries} has another digest.",
                hint=RESTORE,
            )

    def remove_torn(self) -> None:
        """Remove incomplete entries that a crash left. They were never acknowledged."""
        for path, size in self._torn:
            if size or path.suffix == ".jsonl":
                os.truncate(path, size)
            else:
                path.unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.name.split(".")[0])


def _cut_short(path: Path, detail: str) -> StateCorrupt:
    return StateCorrupt(f'state file "{path.parent.name}/{path.name}" is cut short', detail=detail, hint=RESTORE)
