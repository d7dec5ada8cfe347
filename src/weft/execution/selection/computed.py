"""Rows of a batch with their query-sets, and the values computed from them: keys and arguments.

A query's keys are computed only for its own rows; if one of them fails there, only that query fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from weft.execution.items import TagReport
from weft.execution.program import BatchTask, Program
from weft.kernels.bitset import rows_with_slot, set_to_words
from weft.kernels.expression.evaluate import EvaluationError, batch_columns, evaluate
from weft.kernels.expression.raises import may_raise
from weft.kernels.key_hash import hash_keys
from weft.plan.expression import Column, Expression
from weft.plan.slots import Slots, slot_numbers, slot_set

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class TaggedRows:
    """Rows of a stream in one role with their query-sets, before they are written to stores."""

    program: Program
    task: BatchTask
    report: TagReport
    rows: pa.RecordBatch
    times: Array
    sets: Array


def without_failing(tagged: TaggedRows, users: Mapping[Expression, Slots], sets: Array) -> Array:
    """Return the query-sets without the queries for which a part fails on one of their rows, and report these queries.

    `users` gives the slots that compute each part; a query that shares a part is not affected by the rows of another.
    """
    failures: dict[int, str] = {}
    for part, slots in users.items():
        for slot in slot_numbers(slots) if may_raise(part) else ():
            try:
                evaluate(part, tagged.rows.filter(pa.array(rows_with_slot(sets, slot))))
            except EvaluationError as error:
                failures[slot] = str(error)
    tagged.report.failures |= failures
    remaining: Array = sets & ~set_to_words(slot_set(failures), sets.shape[1])
    return remaining


def rows_by_part(users: Mapping[Expression, Slots], sets: Array) -> dict[Expression, Array]:
    """Return, for each part that may raise, the rows of the queries that use it: it may fail on other rows."""
    return {
        part: np.asarray((sets & set_to_words(slots, sets.shape[1])).any(axis=1))
        for part, slots in users.items()
        if may_raise(part)
    }


class Keys:
    """Values and hashes of key expressions for some rows, computed on demand."""

    def __init__(
        self, rows: pa.RecordBatch, wanted: Array, users: Mapping[Expression, Array], *, in_order: bool = False
    ) -> None:
        self._rows = rows
        self._wanted = wanted
        self._users = users
        self._everything = in_order and len(wanted) == rows.num_rows
        self._columns: dict[str, pa.Array] = {}
        """Columns of the wanted rows, taken on first use: many parts read the same few of a batch's columns."""

    def reordered(self, order: Array | slice) -> Keys:
        """Return the keys of a subset of the rows, or of all rows in another order."""
        return Keys(self._rows, self._wanted[order], self._users)

    def values(self, key: tuple[Any, ...]) -> list[pa.Array]:
        """Return the parts of a key for the wanted rows only: a part may fail on other rows."""
        if all(isinstance(part, Column) for part in key):
            return [self._column(part.name) for part in key]
        return [self._value(part) for part in key]

    def _column(self, name: str) -> pa.Array:
        if name not in self._columns:
            column = self._rows.column(name)
            self._columns[name] = column if self._everything else column.take(pa.array(self._wanted))
        return self._columns[name]

    def _value(self, part: Expression) -> pa.Array:
        """Return a key part for the wanted rows; NULL where only queries without this part want the row."""
        names = sorted(batch_columns(part)) or self._rows.schema.names[:1]  # a constant needs the number of rows
        rows = pa.RecordBatch.from_arrays([self._column(name) for name in names], names=names)
        if part not in self._users:
            return evaluate(part, rows)
        chosen = self._users[part][self._wanted]
        values = evaluate(part, rows.filter(pa.array(chosen)))
        return values.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))

    def hashes(self, key: tuple[Any, ...]) -> tuple[Array, Array | None]:
        """Return the hash of each row's key, and which rows have a key without NULL (None if all do)."""
        hashed = hash_keys(self.values(key))
        return hashed.h, hashed.valid
