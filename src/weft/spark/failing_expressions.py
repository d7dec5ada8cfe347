"""Which of the expressions that Spark evaluates cannot be computed on the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from weft.spark.expression_errors import expression_error


@dataclass(frozen=True, slots=True)
class Failures:
    """What cannot be computed on the rows of a batch: predicates by stream and text, and keys by the query's slot."""

    texts: dict[tuple[str, str], str]
    slots: dict[int, str]

    def report(self) -> dict[str, object]:
        """As the reports of a batch have it."""
        texts: dict[str, dict[str, str]] = {}
        for (stream, text), error in self.texts.items():
            texts.setdefault(stream, {})[text] = error
        return {"opaque_failures": texts, "slot_failures": self.slots}

    def plus(self, other: Failures) -> Failures:
        """Both together."""
        return Failures(self.texts | other.texts, self.slots | other.slots)


NO_FAILURES = Failures({}, {})


@dataclass(frozen=True, slots=True)
class Candidate:
    """An expression that may fail: a predicate, known by its stream and text, or a key of the query in a slot."""

    column: Column
    known_as: tuple[str, str] | int


def failing(rows: DataFrame, candidates: Sequence[Candidate], check: Callable[[], None]) -> Failures:
    """Those of the candidates that fail on some of the rows, and how.

    Candidates are tried together, and halved where a try fails: few fail, so few jobs are enough. Any failure that is
    not of an expression is raised. `check` is called before every job.
    """
    error = _error_of(rows, candidates, check) if candidates else None
    if error is None:
        return NO_FAILURES
    if len(candidates) == 1:
        known_as = candidates[0].known_as
        return Failures({}, {known_as: error}) if isinstance(known_as, int) else Failures({known_as: error}, {})
    half = len(candidates) // 2
    return failing(rows, candidates[:half], check).plus(failing(rows, candidates[half:], check))


def _error_of(rows: DataFrame, candidates: Sequence[Candidate], check: Callable[[], None]) -> str | None:
    check()
    columns = [each.column.alias(f"c{number}") for number, each in enumerate(candidates)]
    try:
        rows.select(*columns).write.format("noop").mode("overwrite").save()
    except Exception as error:
        found = expression_error(error)
        if found is None:
            raise
        return found
    return None
