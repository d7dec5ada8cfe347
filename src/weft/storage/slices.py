"""Slice files: cells of shared aggregates on disk, immutable and memory-mappable like buckets.

A file has one record batch per range of hash space. A record batch has a single row, whose columns are lists, because
groups, classes and cells have different lengths. Results of aggregates are stored in the same format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.kernels.aggregate.cells import LAST, Cells, Detail
from weft.kernels.aggregate.session_index import SessionIndex
from weft.storage.bucket import bucket_schema, meaning_of_sets, sets_from_arrow, sets_to_arrow
from weft.storage.data_file import DataFile, Written, write_file

_GROUP, _SETS, _SLICES, _CLASSES, _OF_GROUP, _GROUPS = "group:", "sets", "slices", "classes", "groups", "count"
_LANE, _DETAIL, _DICTIONARY = "lane:", "detail:", "dictionary:"
_PARTS = ("cells", "codes", "weights")
_INDEX = "index:"


def write_slices(
    folder: str | Path,
    name: str,
    parts: Iterable[Cells],
    *,
    epoch: int,
    words: int,
    indexes: Sequence[SessionIndex] = (),
) -> Written:
    """Write a file with one part per range of hash space. Parts with sessions need an index each (`indexes`)."""
    parts = list(parts)
    narrow_lanes = {lane for lane in parts[0].lanes if all(_is_small(part.lanes[lane]) for part in parts)} - {LAST}
    batches = [_to_batch(part, narrow_lanes) for part in parts]
    if indexes:
        batches = [_with_index(batch, index) for batch, index in zip(batches, indexes, strict=True)]
    return write_file(folder, name, bucket_schema(batches[0].schema, epoch=epoch, words=words), batches)


def read_slices(path: Path, parts: Iterable[int]) -> Iterator[tuple[Cells, int]]:
    """Yield the parts with these numbers, mapped into memory, and the epoch of their query-sets."""
    file = DataFile(path)
    epoch, words = meaning_of_sets(file.schema)
    for part in parts:
        yield _wide(_from_batch(file.batch(part), words)), epoch


def read_sessions(path: Path, parts: Iterable[int]) -> Iterator[tuple[Cells, SessionIndex | None, int]]:
    """Like `read_slices` for parts with sessions; also yield the index of each part (None if the file has none). Class
    and group numbers keep the type they have in the file, so that only what `chosen_cells` takes is read."""
    file = DataFile(path)
    epoch, words = meaning_of_sets(file.schema)
    indexed = _INDEX + "hashes" in file.schema.names
    for part in parts:
        batch = file.batch(part)
        yield _from_batch(batch, words), _index(batch) if indexed else None, epoch


def _with_index(batch: pa.RecordBatch, index: SessionIndex) -> pa.RecordBatch:
    for field in fields(index):
        batch = batch.append_column(_INDEX + field.name, _as_list(pa.array(getattr(index, field.name))))
    return batch


def _index(batch: pa.RecordBatch) -> SessionIndex:
    return SessionIndex(
        **{field.name: _numbers(_values(batch.column(_INDEX + field.name))) for field in fields(SessionIndex)}
    )


def _wide(cells: Cells) -> Cells:
    """Return the cells with class and group numbers as int64, which kernels expect."""
    return replace(cells, classes=cells.classes.astype(np.int64), group=cells.group.astype(np.int64))


def _to_batch(cells: Cells, narrow: Set[str]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {f"{_GROUP}{n}": column for n, column in enumerate(cells.groups)}
    columns |= {
        _GROUPS: pa.array([cells.group_count]),
        _SETS: sets_to_arrow(cells.sets),
        _SLICES: pa.array(cells.slices),
        _CLASSES: pa.array(cells.classes.astype(np.int32)),
        _OF_GROUP: pa.array(cells.group.astype(np.int32)),
    }
    for name, values in cells.lanes.items():
        columns[_LANE + name] = pa.array(values.astype(np.int32) if name in narrow else values)
    for name, detail in cells.details.items():
        for part, values in zip(_PARTS, (detail.cells, detail.codes, detail.weights), strict=True):
            columns[f"{_DETAIL}{part}:{name}"] = pa.array(values)
    columns |= {_DICTIONARY + name: values for name, values in cells.dictionaries.items()}
    lists = [_as_list(values) for values in columns.values()]
    return pa.RecordBatch.from_arrays(lists, names=list(columns))


def _is_small(values: np.ndarray[Any, Any]) -> bool:
    """Return whether int64 values fit in int32, as most counts and sums of a slice do."""
    if values.dtype != np.int64:
        return False
    limits = np.iinfo(np.int32)
    return len(values) == 0 or bool(limits.min <= values.min() and values.max() <= limits.max)


def _as_list(values: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _from_batch(batch: pa.RecordBatch, words: int) -> Cells:
    lists = {name: _values(batch.column(name)) for name in batch.schema.names}
    lanes = {name.removeprefix(_LANE): _numbers(values) for name, values in lists.items() if name.startswith(_LANE)}
    dictionaries = {
        name.removeprefix(_DICTIONARY): values for name, values in lists.items() if name.startswith(_DICTIONARY)
    }
    first = f"{_DETAIL}{_PARTS[0]}:"
    details = {
        name: Detail(*(_numbers(lists[f"{_DETAIL}{part}:{name}"]) for part in _PARTS))
        for name in (column.removeprefix(first) for column in lists if column.startswith(first))
    }
    return Cells(
        groups=tuple(lists[f"{_GROUP}{n}"] for n in range(sum(name.startswith(_GROUP) for name in lists))),
        group_count=lists[_GROUPS][0].as_py(),
        sets=sets_from_arrow(lists[_SETS], words),
        slices=_numbers(lists[_SLICES]),
        classes=_numbers(lists[_CLASSES]),
        group=_numbers(lists[_OF_GROUP]),
        lanes=lanes,
        details=details,
        dictionaries=dictionaries,
    )


def _values(column: pa.Array) -> pa.Array:
    start, end = column.offsets[0].as_py(), column.offsets[1].as_py()
    return column.values.slice(start, end - start)


def _numbers(values: pa.Array) -> np.ndarray[Any, Any]:
    numbers: np.ndarray[Any, Any] = values.to_numpy(zero_copy_only=True)
    return numbers
