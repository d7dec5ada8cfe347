"""Which files of a stream have been read: in memory, and in a log of its own that checkpoints refer to.

The set follows the directory: a name that has been missing from it for a week is forgotten. A name that is missing for
less is kept, because a file system that is away for a while must not make all its files new.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from weft.errors import StateCorrupt
from weft.state.directory import Directory, disk_errors

FOLDER = "inputs"
FORGET_AFTER = 7 * 86_400.0
"""Seconds that a name is remembered after its file has gone."""
_SMALLEST_REWRITTEN = 1000


@dataclass(slots=True)
class _Log:
    """The log of one stream: how much of which file counts, and its checksum."""

    generation: int = 0
    bytes: int = 0
    checksum: int = 0
    lines_of_gone: int = 0
    pending: list[dict[str, list[str]]] = field(default_factory=list)


@dataclass(slots=True)
class SeenFiles:
    """Names of the files that have been read, by stream."""

    directory: Directory
    names: dict[str, set[str]] = field(default_factory=dict)
    _missing: dict[str, dict[str, float]] = field(default_factory=dict)
    _logs: dict[str, _Log] = field(default_factory=dict)

    def is_read(self, stream: str, name: str) -> bool:
        """Whether a file has been read."""
        return name in self.names.get(stream, ())

    def add(self, stream: str, names: Iterable[str]) -> None:
        """A committed batch has read these files."""
        new = list(names)
        self.names.setdefault(stream, set()).update(new)
        if new:
            self._logs.setdefault(stream, _Log()).pending.append({"read": new})

    def compare(self, stream: str, present: Set[str], now: float) -> None:
        """Forget names whose files have been gone for a week; `present` are those in the directory."""
        known = self.names.get(stream, set())
        missing = self._missing.setdefault(stream, {})
        for name in [name for name in missing if name in present]:
            del missing[name]
        for name in known - present:
            missing.setdefault(name, now)
        gone = [name for name, since in missing.items() if now - since > FORGET_AFTER]
        if gone:
            for name in gone:
                del missing[name]
            known.difference_update(gone)
            log = self._logs.setdefault(stream, _Log())
            log.pending.append({"gone": gone})
            log.lines_of_gone += len(gone)

    def drop(self, stream: str) -> None:
        """The stream is gone. Its log is removed by the next checkpoint."""
        self.names.pop(stream, None)
        self._missing.pop(stream, None)
        self._logs.pop(stream, None)

    # ---- checkpoints

    def save(self) -> dict[str, Any]:
        """Write what is new to the logs and flush them; returns what the checkpoint has to say of them."""
        value = {}
        for stream, log in self._logs.items():
            if log.lines_of_gone > max(_SMALLEST_REWRITTEN, len(self.names.get(stream, ()))):
                log.generation += 1
                log.bytes = log.checksum = log.lines_of_gone = 0
                log.pending = [{"read": sorted(self.names.get(stream, ()))}]
            if log.pending:
                self._append(stream, log)
            value[stream] = [log.generation, log.bytes, log.checksum]
        return value

    def _append(self, stream: str, log: _Log) -> None:
        data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in log.pending)
        path = self.directory.path(FOLDER, _file_name(stream, log.generation))
        with disk_errors(path.name), open(path, "r+b" if path.exists() else "w+b") as file:
            file.truncate(log.bytes)  # what a crash left behind the last checkpoint
            file.seek(log.bytes)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        log.bytes += len(data)
        log.checksum = zlib.crc32(data, log.checksum)
        log.pending = []

    def load(self, value: Mapping[str, Any]) -> None:
        """What a checkpoint says has been read; raises StateCorrupt where its log is not what it was."""
        for stream, (generation, size, checksum) in value.items():
            path = self.directory.path(FOLDER, _file_name(stream, generation))
            try:
                with open(path, "rb") as file:
                    data = file.read(size)
            except FileNotFoundError:
                data = b""
            if len(data) != size or zlib.crc32(data) != checksum:
                raise StateCorrupt(
                    f'the log "{FOLDER}/{path.name}" of files that were read is damaged',
                    hint="Restore the state directory from a copy.",
                )
            log = self._logs[stream] = _Log(generation, size, checksum)
            names = self.names[stream] = set()
            for line in map(json.loads, data.splitlines()):
                names.update(line.get("read", ()))
                names.difference_update(line.get("gone", ()))
                log.lines_of_gone += len(line.get("gone", ()))

    def remove_old(self) -> None:
        """Remove logs that the checkpoint in place does not name."""
        kept = {_file_name(stream, log.generation) for stream, log in self._logs.items()}
        for path in self.directory.path(FOLDER).iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)


def _file_name(stream: str, generation: int) -> str:
    return f"{stream}.{generation}.jsonl"
