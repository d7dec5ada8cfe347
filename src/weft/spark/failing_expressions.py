"""Search for the Spark expressions that cannot be computed on the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from weft.execution.items import ExpressionFailures
from weft.spark.expression_errors import expression_error

NO_FAILURES = ExpressionFailures()


@dataclass(frozen=True, slots=True)
class CandidateExpression:
    """An expression that may fail: a predicate, identified by stream and text, or a key, identified by a slot."""

    column: Column
    known_as: tuple[str, str] | int


def failing(
    rows: DataFrame, candidates: Sequence[CandidateExpression], check: Callable[[], None]
) -> ExpressionFailures:
    """Return the candidates that fail on at least one of the rows, with their errors.

    All candidates are evaluated in one job, and split in half if it fails. Few candidates fail, so few jobs are needed.
    Failures that no expression caused are raised. `check` is called before every job.
    """
    error = _error_of(rows, candidates, check) if candidates else None
    if error is None:
        return NO_FAILURES
    if len(candidates) == 1:
        known_as = candidates[0].known_as
        if isinstance(known_as, int):
            return ExpressionFailures(slots={known_as: error})
        return ExpressionFailures(texts={known_as: error})
    half = len(candidates) // 2
    return failing(rows, candidates[:half], check).plus(failing(rows, candidates[half:], check))


def _error_of(rows: DataFrame, candidates: Sequence[CandidateExpression], check: Callable[[], None]) -> str | None:
    check()
    columns = [candidate.column.alias(f"c{number}") for number, candidate in enumerate(candidates)]
    try:
        rows.select(*columns).write.format("noop").mode("overwrite").save()
    except Exception as error:
        message = expression_error(error)
        if message is None:
            raise
        return message
    return None
