"""Slice files: cells of shared aggregates on disk, immutable and memory-mappable like buckets.

A file has one record batch per range of hash space, and a record batch has one row, whose columns are lists: groups,
classes and cells are of different lengths. Results of aggregations are kept the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.kernels.cells import Cells, Detail
from weft.state.bucket import bucket_schema, meaning_of_sets, sets_from_arrow, sets_to_arrow, write_bucket

_GROUP, _SETS, _SLICES, _CLASSES, _OF_GROUP, _GROUPS = "group:", "sets", "slices", "classes", "groups", "count"
_LANE, _DETAIL, _DICTIONARY = "lane:", "detail:", "dictionary:"
_PARTS = ("cells", "codes", "weights")


def write_slices(path: Path, parts: Iterable[Cells], *, epoch: int, words: int) -> int:
    """Write a file with one part per range; returns its size."""
    parts = list(parts)
    narrow = {name for name in parts[0].lanes if all(_is_small(part.lanes[name]) for part in parts)}
    batches = [_to_batch(part, narrow) for part in parts]
    return write_bucket(path, bucket_schema(batches[0].schema, epoch=epoch, words=words), batches)


def read_slices(path: Path, parts: Iterable[int]) -> Iterator[tuple[Cells, int]]:
    """Some parts of a file, mapped, with the epoch their query-sets are of."""
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    epoch, words = meaning_of_sets(reader.schema)
    for part in parts:
        yield _from_batch(reader.get_batch(part), words), epoch


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
    """Whether half the bytes do: counts and sums of a slice are mostly small."""
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
        for name in (each.removeprefix(first) for each in lists if each.startswith(first))
    }
    return Cells(
        groups=tuple(lists[f"{_GROUP}{n}"] for n in range(sum(name.startswith(_GROUP) for name in lists))),
        group_count=lists[_GROUPS][0].as_py(),
        sets=sets_from_arrow(lists[_SETS], words),
        slices=_numbers(lists[_SLICES]),
        classes=_numbers(lists[_CLASSES]).astype(np.int64),
        group=_numbers(lists[_OF_GROUP]).astype(np.int64),
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
