"""Text of more than 2 GiB: the limit is set to a few bytes here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.kernels.aggregate.test_result_columns import cells_with
from weft.kernels import large_text as wide
from weft.kernels.aggregate import result_columns as finish
from weft.kernels.aggregate.cells import concat_cells
from weft.kernels.aggregate.result_columns import WindowEnd
from weft.plan.aggregation import Aggregation, GroupKey
from weft.plan.expression import Column
from weft.plan.types import STRING

TEXT = ["a", "", None, "four", "é"]


@pytest.fixture(params=[3, 10**6])
def most(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(wide, "MOST_BYTES", request.param)
    return int(request.param)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_bytes_of_each_row(kind: pa.DataType) -> None:
    array = pa.array([None if value is None else value.encode() for value in TEXT], pa.binary()).cast(kind)
    assert wide.lengths(array).tolist() == [1, 0, 0, 4, 2]
    assert wide.lengths(array.slice(2, 2)).tolist() == [0, 4]
    assert wide.lengths(array[:0]).tolist() == []


def test_bytes_of_other_columns() -> None:
    assert wide.lengths(pa.array([1, None], pa.int32())).tolist() == [4, 4]
    assert wide.lengths(pa.array([True])).tolist() == [1]
    assert wide.lengths(pa.nulls(3)).tolist() == [0, 0, 0]
    nested = pa.array([["x" * 10], None, []])
    assert int(wide.lengths(nested).sum()) >= 10
    assert not wide.is_fixed(nested.type)
    assert wide.is_fixed(pa.int8())


def test_rows_taken_are_wide_only_if_they_must_be(most: int) -> None:
    array, rows = pa.array(TEXT), np.array([3, 0, 3, 2])
    taken = wide.take(array, rows)
    assert taken.to_pylist() == ["four", "a", "four", None]
    assert taken.type == (pa.large_string() if most == 3 else pa.string())
    assert wide.take(pa.array([1, 2]), np.array([1])).to_pylist() == [2]


def test_columns_are_put_together_whatever_their_width(most: int) -> None:
    arrays = [pa.array(TEXT), pa.array(["b"], pa.large_string())]
    together = wide.concat_columns(arrays)
    assert together.to_pylist() == [*TEXT, "b"]
    assert together.type == (pa.large_string() if most == 3 else pa.string())
    assert wide.narrow(together).type == together.type
    assert wide.narrow(wide.concat_columns([pa.array(["b"], pa.large_string())])).type == pa.string()
    assert wide.concat_columns([pa.array([1]), pa.array([2])]).to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [([], []), ([0, 0], [2]), ([3, 3, 3], [1, 1, 1]), ([2, 2, 2], [2, 1]), ([9, 1, 1, 9], [1, 2, 1]), ([9, 9], [1, 1])],
)
def test_rows_are_cut_by_their_bytes(sizes: list[int], pieces: list[int]) -> None:
    found = wide.cut(np.array(sizes, np.int64), 4)
    assert [piece.stop - piece.start for piece in found] == pieces
    assert [at for piece in found for at in range(piece.start, piece.stop)] == list(range(len(sizes)))


def test_cells_of_long_groups_are_put_together(most: int) -> None:
    ones = {"sum:v": np.ones(1, np.int64)}
    parts = [cells_with(ones), cells_with(ones)]
    together = concat_cells(parts)
    assert [column.to_pylist() for column in together.groups] == [["g"]]
    assert together.groups[0].type == pa.string(), "one group is short"


def test_results_are_built_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_with({"sum:v": np.ones(5, np.int64)})
    aggregation = Aggregation((GroupKey(Column("k", STRING), 0, STRING),), ())
    whole = finish.result_table(cells, aggregation, WindowEnd(10, session=False))
    monkeypatch.setattr(finish, "PIECE_BYTES", 2)
    pieces = finish.result_table(cells, aggregation, WindowEnd(10, session=False))
    assert pieces.equals(whole)
    assert pieces.column(0).num_chunks == 3
