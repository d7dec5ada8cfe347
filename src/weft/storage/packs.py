"""Packs: what many batches have made, in one file: their manifests, and their small files of results.

A pack is written once, flushed, and then what is in it is removed elsewhere; whoever looks for a file finds it here
when it is not in its own place any more. At the end is a table of what is where, ordered by the hash of the name; a
digest of the table is in the pack's own name, and what is in a pack is checked as it is outside.
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
from weft.storage.directory import RESTORE, disk_errors, flush_folder, unreadable

PACKS = "packs"
_NAME = re.compile(r"(\d{12,})-(\d{12,})-([0-9a-f]{16})\.pack")
_BATCH = re.compile(r"\d{12,}")
_MAGIC = int.from_bytes(b"weftpack", "little")
_ALIGNED = 64
_COLUMNS = 3
"""Of the table: hashes of the names in order, where each file begins, and its size."""
_FOOTER = 3 * 8
FAN_IN = 8
"""Packs of one size class before they are put together."""
MOST_BYTES = 256 << 20
"""Packs that are larger together are left as they are."""
MANY = 64
"""With more packs than this, the smallest neighbours are put together, whatever their sizes."""

Table = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class PackName:
    """A pack as checkpoints name it: the batches it is of, both included, and its size."""

    name: str
    bytes: int

    @property
    def first(self) -> int:
        """The first of its batches."""
        return int(self.name.split("-")[0])

    @property
    def last(self) -> int:
        """The last of its batches."""
        return int(self.name.split("-")[1])


def write_pack(folder: Path, first: int, last: int, members: Iterable[tuple[str, Any]]) -> PackName:
    """Write a pack of these batches durably: names, and what is in each as something with a buffer."""
    temporary = folder / f"{first:012d}-{last:012d}.pack.tmp"
    places: list[tuple[int, int, int]] = []
    with disk_errors(temporary.name), open(temporary, "wb") as file:
        at = 0
        for name, data in members:
            view = memoryview(data)
            file.write(view)
            places.append((_hash(name), at, view.nbytes))
            at = _pad(file, at + view.nbytes)
        table = np.array(sorted(places), np.uint64).reshape(-1, _COLUMNS).T
        if (table[0, 1:] == table[0, :-1]).any():
            raise InternalError(f"two files have the same name, or the same hash of it, in pack {temporary.name}")
        end = table.tobytes() + np.array([table.shape[1], at, _MAGIC], np.uint64).tobytes()
        file.write(end)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    name = f"{first:012d}-{last:012d}-{digest(end):016x}.pack"
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
        named = _NAME.fullmatch(self.path.name)
        view = np.frombuffer(self._data, np.uint8)
        if named is None or len(view) < _FOOTER:
            raise _damaged(self.path, f"It has {len(view)} bytes.")
        count, begin, magic = map(int, view[-_FOOTER:].view(np.uint64))
        if magic != _MAGIC or begin + count * _COLUMNS * 8 + _FOOTER != len(view):
            raise _damaged(self.path, "It does not end as a pack does.")
        if digest(view[begin:]) != int(named[3], 16):
            raise _damaged(self.path, "Its table is not the one that its name says.")
        return view[begin:-_FOOTER].view(np.uint64).reshape(_COLUMNS, count)

    def find(self, name: str) -> pa.Buffer | None:
        """What is in the file of this name; None if it is not here."""
        hashes, begins, sizes = self._table
        wanted = np.uint64(_hash(name))
        at = int(np.searchsorted(hashes, wanted))
        if at == len(hashes) or hashes[at] != wanted:
            return None
        return self._data.slice(int(begins[at]), int(sizes[at]))

    def members(self) -> Iterable[tuple[int, pa.Buffer]]:
        """Everything in it, by the hash of its name, in the order in which it was written."""
        for hashed, begin, size in sorted(self._table.T.tolist(), key=lambda each: each[1]):
            yield hashed, self._data.slice(begin, size)


def merge_packs(folder: Path, packs: Sequence[PackName]) -> PackName:
    """One pack of what is in several that follow one another."""
    found: dict[int, pa.Buffer] = {}
    for each in packs:
        for hashed, data in Pack(folder / each.name).members():
            # The same file may be in two, if it could not be removed after it was packed first.
            if not found.setdefault(hashed, data).equals(data):
                raise InternalError(
                    f"two files have the same name, or the same hash of it, in packs {packs[0].name} to {each.name}"
                )
    return write_pack(folder, packs[0].first, packs[-1].last, ((f"#{name}", data) for name, data in found.items()))


def _hash(name: str) -> int:
    """A member's name as the table has it; who has only that says so."""
    return int(name[1:]) if name.startswith("#") else digest(name.encode())


def choose_pack_merges(packs: Sequence[PackName], retained: int) -> list[Sequence[PackName]]:
    """Neighbours to put together: enough of a size, or, where there are many packs, the smallest.

    What is in a pack goes together, so one may be of at most a quarter of the batches whose results are retained.
    """
    for at in range(len(packs) - FAN_IN + 1):
        some = packs[at : at + FAN_IN]
        if _may_merge(some, retained) and len({int(log(each.bytes, FAN_IN)) for each in some}) == 1:
            return [some]
    if len(packs) > MANY:
        windows = [packs[at : at + FAN_IN] for at in range(len(packs) - FAN_IN + 1)]
        possible = [some for some in windows if _may_merge(some, retained)]
        if possible:
            return [min(possible, key=lambda some: sum(each.bytes for each in some))]
    return []


def _may_merge(some: Sequence[PackName], retained: int) -> bool:
    return some[-1].last - some[0].first < retained // 4 and sum(each.bytes for each in some) <= MOST_BYTES


# ---- for those who look for a file

_lock = threading.Lock()
_known: dict[Path, tuple[int, dict[str, Pack]]] = {}
"""By folder: when it was last changed, and its packs."""


def find_packed(folder: Path, name: str) -> tuple[pa.Buffer, str] | None:
    """What is in a file that was put into a pack, and the name of that; None if it is in none."""
    numbered = _BATCH.search(name)
    batch = int(numbered[0]) if numbered else 0
    with _lock:
        for again in (False, True):
            for pack in _packs_in(folder, again=again).values():
                # A file goes into the pack of the batch that it is needed until, which is not before it was made.
                if pack.last >= batch and (found := pack.find(name)) is not None:
                    return found, f"{PACKS}/{pack.path.name}"
    return None


def _packs_in(folder: Path, *, again: bool) -> dict[str, Pack]:
    """The packs in a folder; those that are gone are let go, so that their room on the disk is free."""
    try:
        changed = os.stat(folder).st_mtime_ns
        seen, packs = _known.get(folder, (-1, {}))
        if changed != seen or again:
            names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
            packs = {name: pack for name in names if (pack := packs.get(name) or _opened(folder / name)) is not None}
            _known[folder] = (changed, packs)
    except FileNotFoundError:
        return {}
    return packs


def _opened(path: Path) -> Pack | None:
    try:
        return Pack(path)
    except FileNotFoundError:  # another has taken its place meanwhile
        return None


def _damaged(path: Path, detail: str) -> StateCorrupt:
    return StateCorrupt(f'state file "{PACKS}/{path.name}" is damaged', detail=detail, hint=RESTORE)
