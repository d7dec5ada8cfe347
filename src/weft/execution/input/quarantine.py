"""The quarantine of unreadable files and rows: copies, texts and reasons, in a folder of bounded size.

A file's name in quarantine contains a hash of its full path: files of the same name do not overwrite each other, and a
file that is read again overwrites its own entry. A failing write here does not fail the batch, because the manifest
counts whatever was set aside.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from weft.errors import BadFile, SourceUnavailable
from weft.execution.input.conform import BadRow

MOST_BYTES = 1 << 30
"""Size of a stream's quarantine; beyond it, or beyond `MOST_FILES`, the oldest files are removed."""
MOST_FILES = 10_000
LARGEST_COPY = 256 << 20
ROWS_KEPT = 1000
"""Bad rows of a file whose texts are kept; further ones are only counted."""
_LONGEST_NAME = 180
_COPIED_AT_ONCE = 1 << 20
_log = logging.getLogger("weft")


class Quarantine:
    """The quarantine of one stream."""

    def __init__(self, folder: str | os.PathLike[str], stream: str) -> None:
        self._folder = Path(folder) / stream
        self._stream = stream

    def put_file(self, path: str, error: BadFile) -> None:
        """Keep a copy of a bad file, and the reason.

        Raises SourceUnavailable if the file cannot be read at all: it is then not known to be bad.
        """
        name = _name_of(path)
        note = self._copy(path, name)
        self._write(name + ".reason", f"{path}\n{error}\n{note}".encode(errors="replace"))

    def put_rows(self, path: str, rows: Sequence[BadRow], count: int) -> None:
        """Keep the texts of the first bad rows of a file; `count` is the number of all its bad rows."""
        head = {"file": path, "bad_rows": count, "kept": min(len(rows), ROWS_KEPT)}
        lines = [head, *({"at": row.place, "reason": row.reason, "text": row.text} for row in rows[:ROWS_KEPT])]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        self._write(_name_of(path) + ".rows.jsonl", text.encode(errors="replace"))

    def trim(self) -> None:
        """Remove the oldest files beyond `MOST_BYTES` and `MOST_FILES`."""
        with suppress(OSError):
            files = []
            for entry in os.scandir(self._folder):
                with suppress(OSError):
                    files.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
            files.sort(reverse=True)
            total, removed = 0, 0
            for number, (_, file_size, path) in enumerate(files):
                total += file_size
                if total > MOST_BYTES or number >= MOST_FILES:
                    Path(path).unlink(missing_ok=True)
                    removed += 1
            if removed:
                _log.warning(
                    'quarantine of stream "%s" is full: its %d oldest files are removed', self._stream, removed
                )

    def _copy(self, path: str, name: str) -> str:
        """Copy a file into quarantine; return a note for the reason if there is no copy, else an empty string."""
        try:
            source = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below
            size = os.fstat(source.fileno()).st_size
        except OSError as error:
            raise unavailable(path, self._stream, error) from error
        with source:
            if size > LARGEST_COPY:
                return f"There is no copy of it here: it has {size} bytes. Keep the file itself.\n"
            target = self._folder / name
            temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                with open(temporary, "wb") as copy:
                    while data := _read(source, path, self._stream):
                        copy.write(data)
                temporary.replace(target)
            except OSError as error:
                return f"There is no copy of it here: {error}. Keep the file itself.\n"
            finally:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
        return ""

    def _write(self, name: str, data: bytes) -> None:
        temporary = self._folder / f"{name}.{os.getpid()}.tmp"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(data)
            temporary.replace(self._folder / name)
        except OSError as error:
            _log.warning('why something of stream "%s" was set aside cannot be written: %s', self._stream, error)


def unavailable(path: str, stream: str, error: BaseException) -> SourceUnavailable:
    """Return the error for a file that cannot be read now, for a reason other than its content."""
    reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return SourceUnavailable(
        f'file "{path}" of stream "{stream}" cannot be read now',
        detail=f"{reason.splitlines()[0][:500]}.",
        hint="Nothing of the batch was committed, and it is run again: put the file back or make it readable.",
    )


def _read(source: object, path: str, stream: str) -> bytes:
    try:
        data: bytes = source.read(_COPIED_AT_ONCE)  # type: ignore[attr-defined]
    except OSError as error:
        raise unavailable(path, stream, error) from error
    return data


def _name_of(path: str) -> str:
    name = os.fsencode(Path(path).name)[-_LONGEST_NAME:].decode(errors="replace")
    return f"{sha256(os.fsencode(path)).hexdigest()[:12]}-{name}"
