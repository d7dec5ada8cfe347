"""Listing of new files below a directory; directories that have not changed are not listed again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

MOST_BYTES = 512 << 20
"""Limit for a stream's files in a batch (at least one is taken): a backlog is read in portions that fit memory."""
_SETTLED_NANOSECONDS = 2_000_000_000
"""A directory that changed more recently is listed again: two changes within one clock tick share a time stamp."""
_DEEPEST = 32
_HIDDEN = ("_", ".")


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of a stream: its path below the stream's directory, its size, and the time by which files are ordered."""

    name: str
    bytes: int
    modified: int


class Listing:
    """The files below one directory; names that begin with `_` or `.` are skipped.

    A look at an unchanged directory costs one `stat` per directory. Files that were found but not read yet are
    remembered, so a backlog is listed once. An empty file is skipped until it has content: its writer may not
    have finished.
    """

    def __init__(self, root: str, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._root = root
        self._clock = clock
        self._stamps: dict[str, int] | None = None
        self._waiting: dict[str, FileRef] = {}
        self.present: frozenset[str] = frozenset()
        """Names of all files at the last listing."""

    def look(self, is_read: Callable[[str], bool]) -> bool:
        """Look for new files; return whether the directory was listed. Raises OSError if it cannot be read."""
        if self._stamps is not None and self._is_unchanged(self._stamps):
            return False
        stamps: dict[str, int] = {}
        files = {file.name: file for file in self._walk(stamps)}
        self._waiting = {name: file for name, file in files.items() if file.bytes and not is_read(name)}
        self.present = frozenset(files)
        # Writing to an empty file does not change the time stamp of its directory.
        self._stamps = None if any(not file.bytes for file in files.values()) else stamps
        return True

    def next_files(self, *, most_files: int | None) -> tuple[FileRef, ...]:
        """Return the oldest unread files, as many as a batch may take."""
        chosen: list[FileRef] = []
        size = 0
        for file in sorted(self._waiting.values(), key=lambda file: (file.modified, file.name)):
            size += file.bytes
            if chosen and most_files is None and size > MOST_BYTES:
                break
            chosen.append(file)
            if most_files is not None and len(chosen) == most_files:
                break
        return tuple(chosen)

    def forget(self, names: Iterable[str]) -> None:
        """Forget files that have been read."""
        for name in names:
            self._waiting.pop(name, None)

    def look_again(self) -> None:
        """Make the next `look` list the directory even if it has not changed."""
        self._stamps = None

    def _is_unchanged(self, stamps: dict[str, int]) -> bool:
        oldest = self._clock() - _SETTLED_NANOSECONDS
        try:
            return all(stamp < oldest and os.stat(path).st_mtime_ns == stamp for path, stamp in stamps.items())
        except FileNotFoundError:
            return False

    def _walk(self, stamps: dict[str, int]) -> Iterator[FileRef]:
        visited: set[tuple[int, int]] = set()
        folders = [("", 0)]
        while folders:
            folder, depth = folders.pop()
            path = os.path.join(self._root, folder) if folder else self._root
            try:
                status = os.stat(path)
                if depth > _DEEPEST or (status.st_dev, status.st_ino) in visited:
                    continue  # a link back to a visited directory, or a tree that is too deep
                visited.add((status.st_dev, status.st_ino))
                # Taken before the listing, so that an entry added during the listing leaves a newer time stamp.
                stamps[path] = status.st_mtime_ns
                entries = list(os.scandir(path))
            except FileNotFoundError:
                if not folder:
                    raise
                continue  # removed meanwhile
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.name.startswith(_HIDDEN):
                    continue
                if entry.is_dir():
                    folders.append((name, depth + 1))
                elif (file := _file(entry, name)) is not None:
                    yield file


def _file(entry: os.DirEntry[str], name: str) -> FileRef | None:
    try:
        if not entry.is_file():
            return None
        status = entry.stat()
    except FileNotFoundError:  # removed meanwhile
        return None
    return FileRef(name, status.st_size, status.st_mtime_ns)


def group_files(files: Iterable[tuple[str, str, int]], tasks: int) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Divide files (stream, path, bytes) among at most `tasks` tasks that read about equally many bytes."""
    ordered = sorted(files, key=lambda file: -file[2])
    groups: list[list[tuple[str, str]]] = [[] for _ in range(min(max(tasks, 1), len(ordered)))]
    sizes = [0] * len(groups)
    for stream, path, size in ordered:
        lightest = sizes.index(min(sizes))
        groups[lightest].append((stream, path))
        sizes[lightest] += size + 1
    return tuple(tuple(group) for group in groups)
