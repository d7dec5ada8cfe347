"""Which files of a stream have been read: in memory, and in a log of its own that checkpoints refer to.

The set follows the directory: a name that has been missing from it for a week is forgotten. A name that is missing for
less is kept, because a file system that is away for a while must not make all its files new. Since when names are
missing is in the log, too: otherwise whoever restarts once a week would never forget any.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from weft.errors import StateCorrupt
from weft.storage.directory import Directory, disk_errors

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
    superfluous: int = 0
    """Names in it that a log written anew would not have."""
    pending: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class SeenFiles:
    """Names of the files that have been read, by stream."""

    directory: Directory
    names: dict[str, set[str]] = field(default_factory=dict)
    _missing: dict[str, dict[str, float]] = field(default_factory=dict)
    _logs: dict[str, _Log] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Files are read by one thread, and any that changes something may write a checkpoint."""

    def is_read(self, stream: str, name: str) -> bool:
        """Whether a file has been read."""
        return name in self.names.get(stream, ())

    def add(self, stream: str, names: Iterable[str]) -> None:
        """A committed batch has read these files."""
        new = list(names)
        with self._lock:
            self.names.setdefault(stream, set()).update(new)
            if new:
                self._logs.setdefault(stream, _Log()).pending.append({"read": new})

    def compare(self, stream: str, present: Set[str], now: float) -> None:
        """Forget names whose files have been gone for a week; `present` are those in the directory."""
        with self._lock:
            known = self.names.get(stream, set())
            missing = self._missing.setdefault(stream, {})
            back = [name for name in missing if name in present]
            left = [name for name in known - present if name not in missing]
            gone = [name for name, since in missing.items() if now - since > FORGET_AFTER and name not in present]
            lines = ((back, {"back": back}), (left, {"missing": left, "since": now}), (gone, {"gone": gone}))
            for some, line in lines:
                if some:
                    log = self._logs.setdefault(stream, _Log())
                    log.pending.append(line)
                    log.superfluous += _take(line, known, missing)

    def drop(self, stream: str) -> None:
        """The stream is gone. Its log is removed by the next checkpoint."""
        with self._lock:
            self.names.pop(stream, None)
            self._missing.pop(stream, None)
            self._logs.pop(stream, None)

    # ---- checkpoints

    def save(self) -> dict[str, Any]:
        """Write what is new to the logs and flush them; returns what the checkpoint has to say of them."""
        with self._lock:
            logs = dict(self._logs)
            for stream, log in logs.items():
                if log.superfluous > max(_SMALLEST_REWRITTEN, len(self.names.get(stream, ()))):
                    log.generation += 1
                    log.bytes = log.checksum = log.superfluous = 0
                    log.pending = self._all(stream)
            pending = {stream: list(log.pending) for stream, log in logs.items()}
        value = {}
        for stream, log in logs.items():
            if pending[stream]:
                self._append(stream, log, pending[stream])
            value[stream] = [log.generation, log.bytes, log.checksum]
        return value

    def _all(self, stream: str) -> list[dict[str, Any]]:
        """What a log written anew says."""
        since: dict[float, list[str]] = {}
        for name, at in self._missing.get(stream, {}).items():
            since.setdefault(at, []).append(name)
        lines: list[dict[str, Any]] = [{"read": sorted(self.names.get(stream, ()))}]
        return lines + [{"missing": names, "since": at} for at, names in since.items()]

    def _append(self, stream: str, log: _Log, lines: Sequence[dict[str, Any]]) -> None:
        data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
        path = self.directory.path(FOLDER, _file_name(stream, log.generation))
        with disk_errors(path.name), open(path, "r+b" if path.exists() else "w+b") as file:
            file.truncate(log.bytes)  # what a crash left behind the last checkpoint
            file.seek(log.bytes)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        log.bytes += len(data)
        log.checksum = zlib.crc32(data, log.checksum)
        with self._lock:
            del log.pending[: len(lines)]

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
            names, missing = self.names.setdefault(stream, set()), self._missing.setdefault(stream, {})
            for line in map(json.loads, data.splitlines()):
                log.superfluous += _take(line, names, missing)

    def remove_old(self) -> None:
        """Remove logs that the checkpoint in place does not name."""
        kept = {_file_name(stream, log.generation) for stream, log in self._logs.items()}
        for path in self.directory.path(FOLDER).iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)


def _take(line: Mapping[str, Any], names: set[str], missing: dict[str, float]) -> int:
    """Put a line of a log into effect; returns how many names in it a log written anew would not have."""
    names.update(line.get("read", ()))
    names.difference_update(line.get("gone", ()))
    for name in (*line.get("gone", ()), *line.get("back", ())):
        missing.pop(name, None)
    missing.update(dict.fromkeys(line.get("missing", ()), line.get("since", 0.0)))
    return sum(len(line.get(kind, ())) for kind in ("gone", "back", "missing"))


def _file_name(stream: str, generation: int) -> str:
    return f"{stream}.{generation}.jsonl"
