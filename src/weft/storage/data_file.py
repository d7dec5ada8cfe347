"""Data files that detect damage: Arrow record batches with a digest each, and a digest of the digests in the file name.

A file name therefore identifies the content. A process checks each part of a file when it first opens that part, so a
task that needs one range of a bucket reads only that range. No part is handed out unchecked.
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
from weft.storage.directory import disk_errors
from weft.storage.packs import PACKS, find_packed
from weft.storage.state_errors import RESTORE, unreadable

_MAGIC = int.from_bytes(b"weftdata", "little")
_NAME = re.compile(r".*-([0-9a-f]{16})\.[a-z.]+")
_WORD, _ENDING = 8, 2
_FIXED, _PER_PART = 6, 4
_KEPT = 1 << 13
"""Number of recently used files that a process remembers as checked. Each takes some hundred bytes in every process;
with more live files than this, some are checked again."""

_checked: OrderedDict[str, int] = OrderedDict()
"""By path, what was checked: bit 0 stands for Arrow's header and footer, bit n + 1 for part n."""
_lock = threading.Lock()

Words = np.ndarray[Any, np.dtype[np.uint64]]


class FileMissing(StateCorrupt, FileNotFoundError):
    """A data file is missing: the state directory is damaged, unless its results were discarded meanwhile."""

    def __init__(self, path: Path) -> None:
        StateCorrupt.__init__(self, f'state file "{_shown(path)}" is missing', hint=RESTORE)
        self.filename = str(path)  # as every FileNotFoundError has

    __str__ = StateCorrupt.__str__


@dataclass(frozen=True, slots=True)
class Written:
    """A written file: its path relative to the data folder, its size and its number of rows."""

    path: str
    bytes: int
    rows: int


def write_file(folder: str | Path, name: str, schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> Written:
    """Write a file of record batches and append a digest of its content to its name.

    The name must be new: files are never overwritten.
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
    # This process has just computed the digests, so it need not check them.
    _note(Path(folder) / final, (1 << len(rows) + 1) - 1)
    return Written(final, int(size), sum(rows))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn an OSError into StateUnavailable, so that no query is blamed for a failed write."""
    try:
        yield
    except WeftError:  # about another file, which is missing or unreadable
        raise
    except OSError as error:
        raise StateUnavailable(
            f'state file "{_shown(path)}" cannot be written',
            detail=str(error),
            hint="Remove the cause; the batch is run again.",
        ) from error


def _describe(data: pa.Buffer, size: int, ends: list[int], rows: list[int]) -> bytes:
    """Return the trailer: position and digest of each part, and of Arrow's header and footer around the parts."""
    view = np.frombuffer(data, np.uint8)
    header_end = 16 + int(view[12:16].view(np.int32)[0])
    ends = ends or [header_end]
    begins = [header_end, *ends[:-1]]
    words = [size, header_end, digest(view[:header_end]), ends[-1], digest(view[ends[-1] :]), len(rows)]
    for begin, end, count in zip(begins, ends, rows, strict=False):
        words += [begin, end, count, digest(view[begin:end])]
    words += [(len(words) + _ENDING) * _WORD, _MAGIC]
    return np.array(words, np.uint64).tobytes()


class DataFile:
    """A data file, mapped into memory. Every part is checked before it is handed out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data, self._shown = _map(path)
        self._view = np.frombuffer(self._data, np.uint8)
        self._words = self._trailer()
        self._reader = pa.ipc.open_file(pa.BufferReader(self._data.slice(0, int(self._words[0]))))
        self.schema: pa.Schema = self._reader.schema

    @property
    def parts(self) -> int:
        """The number of record batches in the file."""
        return int(self._words[5])

    def batch(self, number: int) -> pa.RecordBatch:
        """Return the record batch with this number."""
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
        """Return the trailer. Its digest is in the file's name, so the digests in a valid trailer can be trusted."""
        size = len(self._view)
        if size < (_FIXED + _ENDING) * _WORD or size % _WORD:
            raise self._damaged(f"It has {size} bytes, which no such file has.")
        length, magic = map(int, self._view[-_ENDING * _WORD :].view(np.uint64))
        if magic != _MAGIC or length > size or length % _WORD:
            raise self._damaged("It does not end as such a file does.")
        words = self._view[size - length :].view(np.uint64)
        if not _is_checked(self._path, 1):
            name = _NAME.fullmatch(self._path.name)
            if name is None or int(name[1], 16) != digest(words):
                raise self._damaged("What it says about itself is not what its name says.")
            header_end, header_digest, footer_begin, footer_digest = map(int, words[1:5])
            self._check(0, header_end, header_digest)
            self._check(footer_begin, size - length, footer_digest)
            _note(self._path, 1)
        return words

    def _check(self, begin: int, end: int, expected: int) -> None:
        if digest(self._view[begin:end]) != expected:
            raise self._damaged(f"Bytes {begin} to {end} are not those that were written.")

    def _damaged(self, detail: str) -> StateCorrupt:
        return StateCorrupt(f'state file "{self._shown}" is damaged', detail=detail, hint=RESTORE)


def _map(path: Path) -> tuple[pa.Buffer, str]:
    """Return the content of a file and its name for messages. A file is put into a pack before it is removed from its
    own path, so a file that is missing from its path is looked up in the packs."""
    try:
        return pa.memory_map(str(path)).read_buffer(), _shown(path)
    except FileNotFoundError as error:
        name = f"{path.parent.name}/{path.name}"
        packed = find_packed(path.parents[2] / PACKS, name) if len(path.parents) > 2 else None
        if packed is None:
            raise FileMissing(path) from error
        return packed[0], f"{packed[1]}: {name}"
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable(_shown(path), error) from error


def _shown(path: Path) -> str:
    """Return a file's path relative to the state directory."""
    return "/".join(path.parts[-3:])


def _is_checked(path: Path, bits: int) -> bool:
    with _lock:
        key = str(path)
        if key in _checked:
            _checked.move_to_end(key)
        return bool(_checked.get(key, 0) & bits)


def _note(path: Path, bits: int) -> None:
    with _lock:
        key = str(path)
        _checked[key] = _checked.get(key, 0) | bits
        _checked.move_to_end(key)
        if len(_checked) > _KEPT:
            _checked.popitem(last=False)


def forget_checked() -> None:
    """Forget which files were checked, so that every file is checked again when it is next opened."""
    with _lock:
        _checked.clear()
