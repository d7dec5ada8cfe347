"""New files of a directory, found cheaply: a directory that has not changed is not listed again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

MOST_BYTES = 512 << 20
"""Of the files of a stream in a batch, but one file at least: a backlog is worked off in pieces that fit memory."""
_SETTLED_NANOSECONDS = 2_000_000_000
"""A directory that changed more recently is listed again: two changes within a tick of its clock look like one."""
_DEEPEST = 32
_HIDDEN = ("_", ".")


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of a stream: its path below the stream's directory, and what decides its turn and its size."""

    name: str
    bytes: int
    modified: int


class Listing:
    """The files of one directory and of those below it; names that begin with `_` or `.` are passed over.

    A look at a directory that has not changed costs one `stat` for each directory. Files that were found and not read
    yet are remembered, so that a backlog is listed once. An empty file is passed over until it has content: it may be
    one that is still to be written.
    """

    def __init__(self, root: str, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._root = root
        self._clock = clock
        self._stamps: dict[str, int] | None = None
        self._waiting: dict[str, FileRef] = {}
        self.present: frozenset[str] = frozenset()
        """Names at the last listing."""

    def look(self, is_read: Callable[[str], bool]) -> bool:
        """Look for new files; returns whether the directory was listed. Raises OSError if it cannot be read."""
        if self._stamps is not None and self._is_unchanged(self._stamps):
            return False
        stamps: dict[str, int] = {}
        found = {each.name: each for each in self._walk(stamps)}
        self._waiting = {name: each for name, each in found.items() if each.bytes and not is_read(name)}
        self.present = frozenset(found)
        # Content that is added to a file does not change its directory.
        self._stamps = None if any(not each.bytes for each in found.values()) else stamps
        return True

    def next_files(self, *, most_files: int | None) -> tuple[FileRef, ...]:
        """The oldest files that wait, as many as a batch may take."""
        chosen: list[FileRef] = []
        size = 0
        for each in sorted(self._waiting.values(), key=lambda file: (file.modified, file.name)):
            size += each.bytes
            if chosen and most_files is None and size > MOST_BYTES:
                break
            chosen.append(each)
            if most_files is not None and len(chosen) == most_files:
                break
        return tuple(chosen)

    def forget(self, names: Iterable[str]) -> None:
        """These files have been read."""
        for name in names:
            self._waiting.pop(name, None)

    def look_again(self) -> None:
        """List the directory at the next look, whether it has changed or not."""
        self._stamps = None

    def _is_unchanged(self, stamps: dict[str, int]) -> bool:
        oldest = self._clock() - _SETTLED_NANOSECONDS
        try:
            return all(stamp < oldest and os.stat(path).st_mtime_ns == stamp for path, stamp in stamps.items())
        except FileNotFoundError:
            return False

    def _walk(self, stamps: dict[str, int]) -> Iterator[FileRef]:
        known: set[tuple[int, int]] = set()
        waiting = [("", 0)]
        while waiting:
            folder, depth = waiting.pop()
            path = os.path.join(self._root, folder) if folder else self._root
            try:
                status = os.stat(path)
                if depth > _DEEPEST or (status.st_dev, status.st_ino) in known:
                    continue  # a link that leads back up
                known.add((status.st_dev, status.st_ino))
                # Taken before the listing: what appears while it is listed changes it after that.
                stamps[path] = status.st_mtime_ns
                entries = list(os.scandir(path))
            except FileNotFoundError:
                if not folder:
                    raise
                continue  # it was removed meanwhile
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.name.startswith(_HIDDEN):
                    continue
                if entry.is_dir():
                    waiting.append((name, depth + 1))
                elif (file := _file(entry, name)) is not None:
                    yield file


def _file(entry: os.DirEntry[str], name: str) -> FileRef | None:
    try:
        if not entry.is_file():
            return None
        status = entry.stat()
    except FileNotFoundError:  # it was removed meanwhile
        return None
    return FileRef(name, status.st_size, status.st_mtime_ns)


def spread(files: Iterable[tuple[str, str, int]], tasks: int) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Files (stream, path, bytes) for at most so many tasks, so that each has about as many bytes to read."""
    ordered = sorted(files, key=lambda file: -file[2])
    groups: list[list[tuple[str, str]]] = [[] for _ in range(min(max(tasks, 1), len(ordered)))]
    sizes = [0] * len(groups)
    for stream, path, size in ordered:
        lightest = sizes.index(min(sizes))
        groups[lightest].append((stream, path))
        sizes[lightest] += size + 1
    return tuple(tuple(group) for group in groups)
