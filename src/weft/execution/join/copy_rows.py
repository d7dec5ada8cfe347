"""Copies of the few matched rows of a large part, so that results do not keep the whole part alive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import InternalError
from weft.execution.join.row_references import RowParts, by_part
from weft.storage.bucket import PartView, bucket_schema
from weft.storage.combinations import Combinations, Member
from weft.storage.data_file import Written, write_file
from weft.storage.result_files import PartRef

Array = np.ndarray[Any, Any]

SPARSE = 4
"""Matched rows are copied if fewer than one in this many rows of a part matched."""


def used_rows(count: int, rows: Sequence[Array]) -> tuple[Array, Array | None]:
    """Return which rows of a part are used and, if they are few, the new row numbers in a copy of just these."""
    used = np.zeros(count, np.bool_)
    for numbers in rows:
        used[numbers] = True
    kept = np.flatnonzero(used)
    return kept, (np.cumsum(used) - 1).astype(np.int32) if len(kept) * SPARSE < count else None


def copy_rows(folder: str | Path, name: str, view: PartView, kept: Array) -> Written:
    """Write a bucket of just these rows, without the indexes, which readers do not need."""
    columns = [column for column in view.rows.schema.names if not column.startswith(("weft#h", "weft#r", "weft#k"))]
    rows = view.rows.select(columns).take(pa.array(kept))
    schema = bucket_schema(rows.schema, epoch=view.epoch, words=view.sets.shape[1])
    copy = write_file(folder, name, schema, [rows])
    if copy.rows != len(kept):
        raise InternalError(
            f"copying rows of a bucket into {copy.path} made {copy.rows} rows of {len(kept)}",
            detail="Nothing of this batch is committed; the bucket is as it was.",
        )
    return copy


def with_copies(found: Combinations, parts: RowParts, data: str, *, base: str) -> Combinations:
    """Return the combinations with references to copies (`base`-n) where few rows would keep a part alive."""
    used: dict[int, list[Array]] = {}
    places: list[list[tuple[int, Array | slice]]] = []
    for member in found.members:
        places.append(list(by_part(member.part)))
        for number, rows in places[-1]:
            used.setdefault(number, []).append(member.row[rows])
    moved: dict[int, tuple[int, Array]] = {}
    for number, row_lists in used.items():
        view = parts.view(number)
        kept, numbers = used_rows(view.rows.num_rows, row_lists)
        if numbers is not None:
            copy = copy_rows(data, f"{base}-{len(moved)}.rows.arrow", view, kept)
            moved[number] = parts.number(PartRef(copy.path, 0)), numbers
    members = []
    for member, member_places in zip(found.members, places, strict=True):
        part, row = member.part.copy(), member.row.copy()
        for number, rows in member_places:
            if number in moved:
                part[rows], row[rows] = moved[number][0], moved[number][1][row[rows]]
        members.append(Member(part, row, member.time))
    return Combinations(tuple(members), found.sets)
