"""Data files that notice damage: Arrow record batches with a digest each, and a digest of those in the file's name.

Whoever names a file says thereby what is in it. A process checks what it opens the first time that it does, part by
part: a task that needs one range of a bucket reads only that. Nothing is mapped for others before it was checked.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import StateCorrupt, StateUnavailable, WeftError
from weft.kernels.digest import digest
from weft.storage.directory import RESTORE, disk_errors, unreadable
from weft.storage.packs import PACKS, find_packed

_MAGIC = int.from_bytes(b"weftdata", "little")
_NAME = re.compile(r".*-([0-9a-f]{16})\.[a-z.]+")
_WORD, _ENDING = 8, 2
_FIXED, _PER_PART = 6, 4
_KEPT = 1 << 13
"""Files of which a process remembers that it has checked them: those it used last. Each takes some hundred bytes, in
every process; who has more live files than that checks some of them again."""

_checked: OrderedDict[str, int] = OrderedDict()
"""By path: what was checked, as bits: Arrow's own description, then the parts."""
_lock = threading.Lock()

Words = np.ndarray[Any, np.dtype[np.uint64]]


class FileMissing(StateCorrupt, FileNotFoundError):
    """A data file is not there: the state directory is damaged, unless its results were given up meanwhile."""

    def __init__(self, path: Path) -> None:
        StateCorrupt.__init__(self, f'state file "{_shown(path)}" is missing', hint=RESTORE)
        self.filename = str(path)  # as of any FileNotFoundError

    __str__ = StateCorrupt.__str__


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written: its path relative to the data folder, its size, and how many rows it has."""

    path: str
    bytes: int
    rows: int


def write_file(folder: str | Path, name: str, schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> Written:
    """Write a file of record batches. What is added to its name is a digest of what is in it.

    Its name must be new: files are never overwritten.
    """
    path = Path(folder) / name
    with _writing(path), disk_errors(path.name):
        path.parent.mkdir(parents=True, exist_ok=True)
        ends, rows = list[int](), list[int]()
        with pa.OSFile(str(path), "wb") as file:
            with pa.ipc.new_file(file, schema) as writer:
                for part in parts:
                    writer.write_batch(part.replace_schema_metadata(schema.metadata))
                    ends.append(file.tell())
                    rows.append(part.num_rows)
            size = file.tell()
            file.write(bytes(-size % _WORD))
            trailer = _describe(_map(path)[0], size, ends, rows)
            file.write(trailer)
            size = file.tell()
        stem, dot, suffix = name.partition(".")
        final = f"{stem}-{digest(trailer):016x}{dot}{suffix}"
        path.rename(Path(folder) / final)
    # Whoever has just computed the digests need not do so again.
    _note(Path(folder) / final, (1 << len(rows) + 1) - 1)
    return Written(final, int(size), sum(rows))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A task that cannot write says so in the user's terms: no query is at fault then."""
    try:
        yield
    except WeftError:  # another file, which is missing, or which cannot be read
        raise
    except OSError as error:
        raise StateUnavailable(
            f'state file "{_shown(path)}" cannot be written',
            detail=str(error),
            hint="Remove the cause; the batch is run again.",
        ) from error


def _describe(data: pa.Buffer, size: int, ends: list[int], rows: list[int]) -> bytes:
    """Where the parts of a file are, with their digests; the first and last bytes are Arrow's own description."""
    view = np.frombuffer(data, np.uint8)
    head = 16 + int(view[12:16].view(np.int32)[0])
    ends = ends or [head]
    begins = [head, *ends[:-1]]
    words = [size, head, digest(view[:head]), ends[-1], digest(view[ends[-1] :]), len(rows)]
    for begin, end, count in zip(begins, ends, rows, strict=False):
        words += [begin, end, count, digest(view[begin:end])]
    words += [(len(words) + _ENDING) * _WORD, _MAGIC]
    return np.array(words, np.uint64).tobytes()


class DataFile:
    """A file, mapped into memory; every part is checked before it is handed out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data, self._shown = _map(path)
        self._view = np.frombuffer(self._data, np.uint8)
        self._words = self._trailer()
        self._reader = pa.ipc.open_file(pa.BufferReader(self._data.slice(0, int(self._words[0]))))
        self.schema: pa.Schema = self._reader.schema

    @property
    def parts(self) -> int:
        """How many record batches it has."""
        return int(self._words[5])

    def batch(self, number: int) -> pa.RecordBatch:
        """One of its record batches."""
        if number >= self.parts:
            raise self._damaged(f"It has {self.parts} parts, and part {number} is asked for.")
        begin, end, rows, expected = map(int, self._words[_FIXED + number * _PER_PART :][:_PER_PART])
        if not _is_checked(self._path, 1 << number + 1):
            self._check(begin, end, expected)
            _note(self._path, 1 << number + 1)
        batch: pa.RecordBatch = self._reader.get_batch(number)
        if batch.num_rows != rows:
            raise self._damaged(f"Part {number} has {batch.num_rows} rows, and {rows} were written.")
        return batch

    def _trailer(self) -> Words:
        """Where everything is. That it is what the file's name says makes every other digest right."""
        size = len(self._view)
        if size < (_FIXED + _ENDING) * _WORD or size % _WORD:
            raise self._damaged(f"It has {size} bytes, which no such file has.")
        length, magic = map(int, self._view[-_ENDING * _WORD :].view(np.uint64))
        if magic != _MAGIC or length > size or length % _WORD:
            raise self._damaged("It does not end as such a file does.")
        words = self._view[size - length :].view(np.uint64)
        if not _is_checked(self._path, 1):
            named = _NAME.fullmatch(self._path.name)
            if named is None or int(named[1], 16) != digest(words):
                raise self._damaged("What it says about itself is not what its name says.")
            head, head_digest, tail, tail_digest = map(int, words[1:5])
            self._check(0, head, head_digest)
            self._check(tail, size - length, tail_digest)
            _note(self._path, 1)
        return words

    def _check(self, begin: int, end: int, expected: int) -> None:
        if digest(self._view[begin:end]) != expected:
            raise self._damaged(f"Bytes {begin} to {end} are not those that were written.")

    def _damaged(self, detail: str) -> StateCorrupt:
        return StateCorrupt(f'state file "{self._shown}" is damaged', detail=detail, hint=RESTORE)


def _map(path: Path) -> tuple[pa.Buffer, str]:
    """What is in a file, in its own place or in a pack: it is in the pack before its own place is empty. And how the
    file is called in messages."""
    try:
        return pa.memory_map(str(path)).read_buffer(), _shown(path)
    except FileNotFoundError as error:
        name = f"{path.parent.name}/{path.name}"
        found = find_packed(path.parents[2] / PACKS, name) if len(path.parents) > 2 else None
        if found is None:
            raise FileMissing(path) from error
        return found[0], f"{found[1]}: {name}"
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable(_shown(path), error) from error


def _shown(path: Path) -> str:
    """Its path as one finds it in the state directory."""
    return "/".join(path.parts[-3:])


def _is_checked(path: Path, what: int) -> bool:
    with _lock:
        key = str(path)
        if key in _checked:
            _checked.move_to_end(key)
        return bool(_checked.get(key, 0) & what)


def _note(path: Path, what: int) -> None:
    with _lock:
        key = str(path)
        _checked[key] = _checked.get(key, 0) | what
        _checked.move_to_end(key)
        if len(_checked) > _KEPT:
            _checked.popitem(last=False)


def forget_checked() -> None:
    """Check every file again that is opened from here on, as a new process does."""
    with _lock:
        _checked.clear()
