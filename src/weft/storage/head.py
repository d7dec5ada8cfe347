"""The head of the journal: the number of entries and the digest of the last one, so that lost entries are detected.

The head is one record of fixed size, overwritten in place after an entry is durable. After a crash it may therefore lag
behind the journal by entries that were never acknowledged, but it is never ahead.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from weft.errors import StateCorrupt
from weft.storage.sealed_json import seal, unseal
from weft.storage.state_errors import RESTORE, unreadable

HEAD_FILE = "head"
_SIZE = 256


@dataclass(frozen=True, slots=True)
class Link:
    """A position in the journal: the number of entries before it, and the digest of the last of them."""

    entries: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class HeadRecord:
    """The content of the head file."""

    link: Link = Link()
    trimmed: int = 0
    """Results of batches before this one have been discarded."""


def create_head(root: Path) -> None:
    """Write the head of an empty journal."""
    with open(root / HEAD_FILE, "wb") as file:
        file.write(_to_bytes(HeadRecord()))
        file.flush()
        os.fsync(file.fileno())


class Head:
    """The head of a state directory's journal."""

    def __init__(self, root: Path) -> None:
        self._path = root / HEAD_FILE
        self.record = _read(self._path)

    def advance(self, link: Link) -> None:
        """Record a durable entry. The head is not flushed: a head that lags behind is still correct."""
        self._write(replace(self.record, link=link), durable=False)

    def trim(self, before: int) -> None:
        """Record durably that results of batches older than `before` are discarded, before their files are removed."""
        self._write(replace(self.record, trimmed=before), durable=True)

    def _write(self, record: HeadRecord, *, durable: bool) -> None:
        file = os.open(self._path, os.O_WRONLY)
        try:
            os.pwrite(file, _to_bytes(record), 0)
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        self.record = record


def _to_bytes(record: HeadRecord) -> bytes:
    data, _ = seal(HEAD_FILE, asdict(record))
    return data.ljust(_SIZE - 1) + b"\n"


def _read(path: Path) -> HeadRecord:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(HEAD_FILE, error) from error
    try:
        if len(data) != _SIZE or data[-1:] != b"\n":
            raise ValueError(f"it has {len(data)} bytes")
        value, _ = unseal(HEAD_FILE, data.rstrip())
        record = HeadRecord(Link(**value["link"]), value["trimmed"])
        if data != _to_bytes(record):
            raise ValueError("it is not as it was written")
        return record
    except (ValueError, KeyError, TypeError) as error:
        raise StateCorrupt(
            f'state file "{HEAD_FILE}" cannot be read',
            detail=f"Without it nobody knows whether the journal is whole: {error}.",
            hint=RESTORE,
        ) from error
