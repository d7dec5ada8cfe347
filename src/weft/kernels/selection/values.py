"""Values of the expressions in predicates, on the rows where they can be computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.kernels.arrow_types import arrow_type
from weft.kernels.expression.evaluate import Batch, EvaluationError, batch_columns, evaluate
from weft.kernels.expression.values import scatter, true_rows
from weft.kernels.selection.attribute import AttributeIndex
from weft.plan.expression import Column, Expression

Rows = npt.NDArray[np.bool_]


class Values:
    """The attribute values of one batch. Only values of `repeated` expressions are kept, so each is computed once."""

    def __init__(self, batch: Batch, repeated: frozenset[Expression]) -> None:
        self._batch = batch
        self._repeated = repeated
        self._known: dict[Expression, pa.Array | EvaluationError] = {}

    def of(self, attribute: AttributeIndex) -> pa.Array | EvaluationError:
        """Return the values of all rows, or, if that raises, of the rows on which the attribute's guards hold."""
        expression = attribute.expression
        assert expression is not None
        value = self._known.get(expression)
        if value is None:
            value = self._everywhere(expression)
            if expression in self._repeated:
                self._known[expression] = value
        if isinstance(value, EvaluationError) and attribute.guards:
            return self._guarded(expression, attribute.guards)
        return value

    def _everywhere(self, expression: Expression) -> pa.Array | EvaluationError:
        if isinstance(expression, Column):
            column = self._batch.column(expression.name)
            if isinstance(column, pa.DictionaryArray) and column.type.value_type == arrow_type(expression.type):
                return column  # `Attribute.rank` ranks each dictionary value once
        try:
            return evaluate(expression, self._batch)
        except EvaluationError as error:
            return error

    def _guarded(self, expression: Expression, guards: tuple[Expression, ...]) -> pa.Array | EvaluationError:
        try:
            rows = holding(guards, self._batch, np.ones(self._batch.num_rows, np.bool_))
            value = evaluate(expression, _rows_of(self._batch, [expression], rows))
        except EvaluationError as error:
            return error
        return scatter(value, rows, pa.nulls(self._batch.num_rows, value.type))


def holding(parts: Sequence[Expression], batch: Batch, rows: Rows) -> Rows:
    """Return which of the rows satisfy all parts. A part is computed only on rows where all earlier parts are TRUE."""
    held = rows.copy()
    for part in parts:
        if not held.any():
            break
        remaining = _rows_of(batch, [part], held)
        held[held] = true_rows(evaluate(part, remaining), remaining.num_rows)
    return held


def _rows_of(batch: Batch, expressions: Sequence[Expression], rows: Rows) -> Batch:
    names = frozenset[str]().union(*(batch_columns(expression) for expression in expressions))
    if not names:  # a constant: a column of NULLs keeps the number of rows
        return pa.RecordBatch.from_arrays([pa.nulls(int(rows.sum()))], names=[""])
    return batch.select(sorted(names)).filter(pa.array(rows))
