"""The names of the files of each stream that have been read, in memory and in a log per stream.

A checkpoint records the length and the checksum of each log. A name is forgotten when its file has been missing for a
week, not earlier: a file system that is unavailable for a while must not make all its files new. The log also records
since when a name has been missing; otherwise an engine that restarts every week would never forget a name.
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
from weft.storage.state_errors import RESTORE, unreadable

FOLDER = "inputs"
FORGET_AFTER = 7 * 86_400.0
"""Seconds for which a name is remembered after its file has disappeared."""
_SMALLEST_REWRITTEN = 1000


@dataclass(slots=True)
class _Log:
    """The log of one stream: number of its file, and length and checksum of the valid part of the file."""

    generation: int = 0
    bytes: int = 0
    checksum: int = 0
    superfluous: int = 0
    """Number of names in the log that a rewritten log would not contain."""
    pending: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class SeenFiles:
    """The names of the files that have been read, by stream."""

    directory: Directory
    names: dict[str, set[str]] = field(default_factory=dict)
    _missing: dict[str, dict[str, float]] = field(default_factory=dict)
    _logs: dict[str, _Log] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """One thread reads files, but any thread that makes a change may write a checkpoint."""

    def is_read(self, stream: str, name: str) -> bool:
        """Return whether a file of a stream has been read."""
        return name in self.names.get(stream, ())

    def add(self, stream: str, names: Iterable[str]) -> None:
        """Record that a committed batch has read these files."""
        new = list(names)
        with self._lock:
            self.names.setdefault(stream, set()).update(new)
            if new:
                self._logs.setdefault(stream, _Log()).pending.append({"read": new})

    def compare(self, stream: str, present: Set[str], now: float) -> None:
        """Forget names whose files have been missing for a week. `present` are the names in the directory now."""
        with self._lock:
            known = self.names.get(stream, set())
            missing = self._missing.setdefault(stream, {})
            back = [name for name in missing if name in present]
            left = [name for name in known - present if name not in missing]
            gone = [name for name, since in missing.items() if now - since > FORGET_AFTER and name not in present]
            lines = ((back, {"back": back}), (left, {"missing": left, "since": now}), (gone, {"gone": gone}))
            for changed, line in lines:
                if changed:
                    log = self._logs.setdefault(stream, _Log())
                    log.pending.append(line)
                    log.superfluous += _take(line, known, missing)

    def drop(self, stream: str) -> None:
        """Forget a dropped stream. The next checkpoint removes its log."""
        with self._lock:
            self.names.pop(stream, None)
            self._missing.pop(stream, None)
            self._logs.pop(stream, None)

    # ---- checkpoints

    def save(self) -> dict[str, Any]:
        """Append pending lines to the logs and flush them. Return what the checkpoint records about the logs."""
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
        """Return the lines of a rewritten log."""
        since: dict[float, list[str]] = {}
        for name, at in self._missing.get(stream, {}).items():
            since.setdefault(at, []).append(name)
        lines: list[dict[str, Any]] = [{"read": sorted(self.names.get(stream, ()))}]
        return lines + [{"missing": names, "since": at} for at, names in since.items()]

    def _append(self, stream: str, log: _Log, lines: Sequence[dict[str, Any]]) -> None:
        data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
        path = self.directory.path(FOLDER, _file_name(stream, log.generation))
        with disk_errors(path.name), open(path, "r+b" if path.exists() else "w+b") as file:
            file.truncate(log.bytes)  # drop what was written after the last checkpoint before a crash
            file.seek(log.bytes)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        log.bytes += len(data)
        log.checksum = zlib.crc32(data, log.checksum)
        with self._lock:
            del log.pending[: len(lines)]

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the names from the logs that a checkpoint describes. Raise StateCorrupt if a log is damaged."""
        for stream, (generation, size, checksum) in value.items():
            path = self.directory.path(FOLDER, _file_name(stream, generation))
            try:
                with open(path, "rb") as file:
                    data = file.read(size)
            except FileNotFoundError:
                data = b""
            except OSError as error:
                raise unreadable(f"{FOLDER}/{path.name}", error) from error
            if len(data) != size or zlib.crc32(data) != checksum:
                raise StateCorrupt(
                    f'the log "{FOLDER}/{path.name}" of files that were read is damaged',
                    hint=RESTORE,
                )
            log = self._logs[stream] = _Log(generation, size, checksum)
            names, missing = self.names.setdefault(stream, set()), self._missing.setdefault(stream, {})
            for line in map(json.loads, data.splitlines()):
                log.superfluous += _take(line, names, missing)

    def remove_old(self) -> None:
        """Remove logs that the latest checkpoint does not name."""
        with self._lock:
            kept = {_file_name(stream, log.generation) for stream, log in self._logs.items()}
        for path in self.directory.path(FOLDER).iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)


def _take(line: Mapping[str, Any], names: set[str], missing: dict[str, float]) -> int:
    """Apply a line of a log. Return how many of its names a rewritten log would not contain."""
    names.update(line.get("read", ()))
    names.difference_update(line.get("gone", ()))
    for name in (*line.get("gone", ()), *line.get("back", ())):
        missing.pop(name, None)
    missing.update(dict.fromkeys(line.get("missing", ()), line.get("since", 0.0)))
    return sum(len(line.get(kind, ())) for kind in ("gone", "back", "missing"))


def _file_name(stream: str, generation: int) -> str:
    return f"{stream}.{generation}.jsonl"
