"""Packs: single files that contain the manifests and small result files of many batches.

A pack is written once and flushed; then the original files are removed. A reader that does not find a file at its own
path looks for it in the packs. A pack ends with a table of its members, ordered by the hash of the member's name. A
digest of the table is part of the pack's name; members carry their own digests, as they do outside a pack.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import InternalError, StateCorrupt
from weft.kernels.digest import digest
from weft.storage.directory import disk_errors, flush_folder
from weft.storage.state_errors import RESTORE, unreadable

PACKS = "packs"
_NAME = re.compile(r"(\d{12,})-(\d{12,})-([0-9a-f]{16})\.pack")
_BATCH = re.compile(r"\d{12,}")
_MAGIC = int.from_bytes(b"weftpack", "little")
_ALIGNED = 64
_COLUMNS = 3
"""Columns of the table: sorted hashes of the member names, offsets, and sizes."""
_FOOTER = 3 * 8
FAN_IN = 8
"""Number of neighbouring packs of one size class that triggers a merge."""
MOST_BYTES = 256 << 20
"""Maximum total size of packs to merge."""
MANY = 64
"""Above this number of packs, the smallest neighbours are merged even if their sizes differ."""

Table = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PackName:
    """A pack as checkpoints describe it. The name contains the first and the last batch, both included."""

    name: str
    bytes: int

    @property
    def first(self) -> int:
        """The first batch in the pack."""
        return int(self.name.split("-")[0])

    @property
    def last(self) -> int:
        """The last batch in the pack."""
        return int(self.name.split("-")[1])


def write_pack(folder: Path, first: int, last: int, members: Iterable[tuple[str, Any]]) -> PackName:
    """Write a pack of batches first … last durably. `members` are names and contents (objects with a buffer)."""
    temporary = folder / f"{first:012d}-{last:012d}.pack.tmp"
    entries: list[tuple[int, int, int]] = []
    with disk_errors(temporary.name), open(temporary, "wb") as file:
        at = 0
        for name, data in members:
            view = memoryview(data)
            file.write(view)
            entries.append((_hash(name), at, view.nbytes))
            at = _pad(file, at + view.nbytes)
        table = np.array(sorted(entries), np.uint64).reshape(-1, _COLUMNS).T
        if (table[0, 1:] == table[0, :-1]).any():
            raise InternalError(f"two files have the same name, or the same hash of it, in pack {temporary.name}")
        trailer = table.tobytes() + np.array([table.shape[1], at, _MAGIC], np.uint64).tobytes()
        file.write(trailer)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    name = f"{first:012d}-{last:012d}-{digest(trailer):016x}.pack"
    os.replace(temporary, folder / name)
    flush_folder(folder)
    return PackName(name, size)


def _pad(file: Any, at: int) -> int:
    file.write(bytes(-at % _ALIGNED))
    return at + -at % _ALIGNED


class Pack:
    """A pack, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = int(path.name.split("-")[1]) if _NAME.fullmatch(path.name) else 0
        try:
            self._data = pa.memory_map(str(path)).read_buffer()
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowInvalid) as error:
            raise unreadable(f"{PACKS}/{path.name}", error) from error
        self._table = self._read_table()

    def _read_table(self) -> Table:
        name = _NAME.fullmatch(self.path.name)
        view = np.frombuffer(self._data, np.uint8)
        if name is None or len(view) < _FOOTER:
            raise _damaged(self.path, f"It has {len(view)} bytes.")
        count, begin, magic = map(int, view[-_FOOTER:].view(np.uint64))
        if magic != _MAGIC or begin + count * _COLUMNS * 8 + _FOOTER != len(view):
            raise _damaged(self.path, "It does not end as a pack does.")
        if digest(view[begin:]) != int(name[3], 16):
            raise _damaged(self.path, "Its table is not the one that its name says.")
        return view[begin:-_FOOTER].view(np.uint64).reshape(_COLUMNS, count)

    def find(self, name: str) -> pa.Buffer | None:
        """Return the content of a member by its name; None if the pack has no such member."""
        hashes, begins, sizes = self._table
        name_hash = np.uint64(_hash(name))
        at = int(np.searchsorted(hashes, name_hash))
        if at == len(hashes) or hashes[at] != name_hash:
            return None
        return self._data.slice(int(begins[at]), int(sizes[at]))

    def members(self) -> Iterable[tuple[int, pa.Buffer]]:
        """Yield the members as (hash of the name, content), in the order in which they were written."""
        for name_hash, begin, size in sorted(self._table.T.tolist(), key=lambda entry: entry[1]):
            yield name_hash, self._data.slice(begin, size)


def merge_packs(folder: Path, packs: Sequence[PackName]) -> PackName:
    """Write one pack with the members of consecutive packs."""
    members: dict[int, pa.Buffer] = {}
    for pack in packs:
        for name_hash, data in Pack(folder / pack.name).members():
            # A file that could not be removed after it was packed may be in two packs.
            if not members.setdefault(name_hash, data).equals(data):
                raise InternalError(
                    f"two files have the same name, or the same hash of it, in packs {packs[0].name} to {pack.name}"
                )
    return write_pack(
        folder, packs[0].first, packs[-1].last, ((f"#{hashed}", data) for hashed, data in members.items())
    )


def _hash(name: str) -> int:
    """Return the hash of a member's name. A name of the form "#<number>" stands for a known hash."""
    return int(name[1:]) if name.startswith("#") else digest(name.encode())


def choose_pack_merges(packs: Sequence[PackName], retained: int) -> list[Sequence[PackName]]:
    """Return neighbouring packs to merge: `FAN_IN` of one size class or, if there are many packs, the smallest ones.

    All members of a pack are freed together, so a pack may span at most a quarter of the `retained` batches.
    """
    for at in range(len(packs) - FAN_IN + 1):
        run = packs[at : at + FAN_IN]
        if _may_merge(run, retained) and len({int(log(pack.bytes, FAN_IN)) for pack in run}) == 1:
            return [run]
    if len(packs) > MANY:
        runs = [packs[at : at + FAN_IN] for at in range(len(packs) - FAN_IN + 1)]
        candidates = [run for run in runs if _may_merge(run, retained)]
        if candidates:
            return [min(candidates, key=lambda run: sum(pack.bytes for pack in run))]
    return []


def _may_merge(packs: Sequence[PackName], retained: int) -> bool:
    return packs[-1].last - packs[0].first < retained // 4 and sum(pack.bytes for pack in packs) <= MOST_BYTES


# ---- lookup

_lock = threading.Lock()
_known: dict[Path, tuple[int, dict[str, Pack]]] = {}
"""By folder: its modification time when it was last listed, and its packs."""


def find_packed(folder: Path, name: str) -> tuple[pa.Buffer, str] | None:
    """Return the content of a packed file and the name of its pack; None if no pack contains the file."""
    number = _BATCH.search(name)
    batch = int(number[0]) if number else 0
    with _lock:
        for again in (False, True):
            for pack in _packs_in(folder, again=again).values():
                # A file is in the pack of the last batch that needs it, never in a pack of earlier batches.
                if pack.last >= batch and (content := pack.find(name)) is not None:
                    return content, f"{PACKS}/{pack.path.name}"
    return None


def _packs_in(folder: Path, *, again: bool) -> dict[str, Pack]:
    """Return the packs in a folder. Packs that were removed are closed, which frees their disk space."""
    try:
        modified = os.stat(folder).st_mtime_ns
        listed, packs = _known.get(folder, (-1, {}))
        if modified != listed or again:
            names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
            packs = {name: pack for name in names if (pack := packs.get(name) or _opened(folder / name)) is not None}
            _known[folder] = (modified, packs)
    except FileNotFoundError:
        return {}
    return packs


def _opened(path: Path) -> Pack | None:
    try:
        return Pack(path)
    except FileNotFoundError:  # merged into another pack meanwhile
        return None


def _damaged(path: Path, detail: str) -> StateCorrupt:
    return StateCorrupt(f'state file "{PACKS}/{path.name}" is damaged', detail=detail, hint=RESTORE)
