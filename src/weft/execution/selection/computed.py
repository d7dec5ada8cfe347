"""Rows of a batch with their query-sets, and the values computed from them: keys and arguments.

A query computes its keys only for rows of its own, and one whose key fails on such a row fails alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from weft.execution.program import BatchTask, Program
from weft.kernels.bitset import column_of, set_to_words
from weft.kernels.expression.evaluate import EvaluationError, batch_columns, evaluate
from weft.kernels.expression.raises import may_raise
from weft.kernels.key_hash import hash_keys
from weft.plan.expression import Column, Expression
from weft.plan.slots import Slots, slot_numbers, slot_set

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class TagReport:
    """What one tag task tells the driver about one stream."""

    stream: str
    rows: int = 0
    late: int = 0
    timeless: int = 0
    max_time: int | None = None
    failures: dict[int, str] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Rows and distinct keys of the largest bucket, by store and index: what selectivities are estimated from."""
    ahead: int = 0
    """Rows that were set aside because their event time is too far ahead."""
    samples: list[dict[str, str | None]] = field(default_factory=list)
    """A few of those."""
    missed: int = 0
    """Rows that came too late for some query over other streams, too, which did not wait for theirs."""
    later: list[str] = field(default_factory=list)
    """Buckets that no row of this batch is to meet."""
    bad_files: tuple[str, ...] = ()
    """Files that were set aside, each with the reason."""
    bad_rows: int = 0
    """Rows that were set aside, of files that were not."""

    def to_json(self) -> dict[str, Any]:
        """As it travels through the shuffle."""
        return {
            "stream": self.stream,
            "rows": self.rows,
            "late": self.late,
            "timeless": self.timeless,
            "max_time": self.max_time,
            "failures": {str(slot): message for slot, message in self.failures.items()},
            "keys": self.keys,
            "ahead": self.ahead,
            "samples": self.samples,
            "missed": self.missed,
            "bad_files": self.bad_files,
            "bad_rows": self.bad_rows,
        }


@dataclass(frozen=True, slots=True)
class Tagged:
    """Rows of one role with their query-sets, on the way to the stores."""

    program: Program
    task: BatchTask
    report: TagReport
    rows: pa.RecordBatch
    times: Array
    sets: Array


def without_failing(tagged: Tagged, users: Mapping[Expression, Slots], sets: Array) -> Array:
    """The query-sets without the queries that a part fails for on a row of their own; they are reported.

    `users` gives the slots that compute each part: others that share it must not suffer for them.
    """
    found: dict[int, str] = {}
    for part, slots in users.items():
        for slot in slot_numbers(slots) if may_raise(part) else ():
            try:
                evaluate(part, tagged.rows.filter(pa.array(column_of(sets, slot))))
            except EvaluationError as error:
                found[slot] = str(error)
    tagged.report.failures |= found
    remaining: Array = sets & ~set_to_words(slot_set(found), sets.shape[1])
    return remaining


def rows_by_part(users: Mapping[Expression, Slots], sets: Array) -> dict[Expression, Array]:
    """For each part that can fail, the rows it is wanted for: it may not be computable for others."""
    return {
        part: np.asarray((sets & set_to_words(slots, sets.shape[1])).any(axis=1))
        for part, slots in users.items()
        if may_raise(part)
    }


class Keys:
    """Values and hashes of key expressions for some rows, computed when asked for."""

    def __init__(
        self, rows: pa.RecordBatch, wanted: Array, users: Mapping[Expression, Array], *, in_order: bool = False
    ) -> None:
        self._rows = rows
        self._wanted = wanted
        self._users = users
        self._everything = in_order and len(wanted) == rows.num_rows
        self._columns: dict[str, pa.Array] = {}
        """Those of the wanted rows: many parts read the same few, and a batch may have many others."""

    def reordered(self, order: Array | slice) -> Keys:
        """The same for some of the rows, or for all in another order."""
        return Keys(self._rows, self._wanted[order], self._users)

    def values(self, key: tuple[Any, ...]) -> list[pa.Array]:
        """Each part of a key for the wanted rows only: other rows may not be computable."""
        if all(isinstance(part, Column) for part in key):
            return [self._column(part.name) for part in key]
        return [self._value(part) for part in key]

    def _column(self, name: str) -> pa.Array:
        if name not in self._columns:
            column = self._rows.column(name)
            self._columns[name] = column if self._everything else column.take(pa.array(self._wanted))
        return self._columns[name]

    def _value(self, part: Expression) -> pa.Array:
        """A key part for the wanted rows; NULL where only queries without this part want the row."""
        names = sorted(batch_columns(part)) or self._rows.schema.names[:1]  # a constant needs rows to be in
        rows = pa.RecordBatch.from_arrays([self._column(name) for name in names], names=names)
        if part not in self._users:
            return evaluate(part, rows)
        chosen = self._users[part][self._wanted]
        values = evaluate(part, rows.filter(pa.array(chosen)))
        return values.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))

    def hashes(self, key: tuple[Any, ...]) -> tuple[Array, Array | None]:
        """Hash of each row's key, and which rows have one (NULL never matches)."""
        hashed = hash_keys(self.values(key))
        return hashed.h, hashed.valid
