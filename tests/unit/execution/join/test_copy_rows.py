"""Rows that are copied out of a bucket are counted: a row that is lost would be missing from results."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from weft.errors import InternalError
from weft.execution.join import copy_rows as module
from weft.execution.join.copy_rows import copy_rows
from weft.storage.bucket import HASH, SETS, TIME, PartView, bucket_schema, open_part, sets_to_arrow
from weft.storage.data_file import Written, write_file


def part(folder: Path) -> PartView:
    """Ten rows."""
    columns = {
        HASH: pa.array(np.arange(10, dtype=np.uint64)),
        TIME: pa.array(np.arange(10)),
        SETS: sets_to_arrow(np.ones((10, 1), np.uint64)),
        "x": pa.array(range(10)),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    file = write_file(folder, "b.arrow", bucket_schema(batch.schema, epoch=0, words=1), [batch])
    return open_part(folder / file.path, 0)


def test_the_rows_that_are_kept_are_copied(tmp_path: Path) -> None:
    copy = copy_rows(tmp_path, "c.rows.arrow", part(tmp_path), np.array([1, 5, 9]))
    assert copy.rows == 3
    assert open_part(tmp_path / copy.path, 0).rows.column("x").to_pylist() == [1, 5, 9]


def test_a_copy_that_loses_a_row_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def losing(folder: Path, name: str, schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> Written:
        return write_file(folder, name, schema, [each.slice(1) for each in parts])

    monkeypatch.setattr(module, "write_file", losing)
    with pytest.raises(InternalError, match="made 2 rows of 3"):
        copy_rows(tmp_path, "c.rows.arrow", part(tmp_path), np.array([1, 5, 9]))
