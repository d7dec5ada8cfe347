"""Which expressions fail, found with few jobs; what is not an expression's fault is nobody's here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from weft.execution.items import ExpressionFailures
from weft.spark import failing_expressions as module
from weft.spark.failing_expressions import NO_FAILURES, CandidateExpression, failing


class ExpressionError(Exception):
    """Stands for an error of Spark's about a value."""


class Rows:
    """A DataFrame that fails if one of the `bad` columns is selected."""

    def __init__(self, bad: dict[str, Exception]) -> None:
        self.bad = bad
        self.jobs = 0
        self._selected: Sequence[str] = ()

    def select(self, *columns: str) -> Rows:
        self._selected = columns
        return self

    @property
    def write(self) -> Rows:
        return self

    def format(self, _: str) -> Rows:
        return self

    mode = format

    def save(self) -> None:
        self.jobs += 1
        for column in self._selected:
            if column in self.bad:
                raise self.bad[column]


class Name(str):
    """A column."""

    __slots__ = ()

    def alias(self, _: str) -> str:
        return str(self)


@pytest.fixture(autouse=True)
def _errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "expression_error", lambda error: str(error) if isinstance(error, ExpressionError) else None
    )


def candidates(count: int) -> list[CandidateExpression]:
    columns: list[Any] = [Name(f"e{number}") for number in range(count)]
    return [CandidateExpression(column, ("a", f"e{number}")) for number, column in enumerate(columns)]


def find(rows: Any, wanted: list[CandidateExpression]) -> ExpressionFailures:
    return failing(rows, wanted, lambda: None)


def test_nothing_to_try_is_no_job() -> None:
    rows = Rows({})
    assert find(rows, []) == NO_FAILURES
    assert rows.jobs == 0


def test_none_fails() -> None:
    rows = Rows({})
    assert find(rows, candidates(1000)) == NO_FAILURES
    assert rows.jobs == 1


def test_few_that_fail_are_found_with_few_jobs() -> None:
    rows = Rows({"e17": ExpressionError("no"), "e700": ExpressionError("neither")})
    assert find(rows, candidates(1000)).texts == {("a", "e17"): "no", ("a", "e700"): "neither"}
    assert rows.jobs <= 2 * 2 * 10 + 1


def test_all_fail() -> None:
    rows = Rows({f"e{number}": ExpressionError("no") for number in range(20)})
    assert len(find(rows, candidates(20)).texts) == 20
    assert rows.jobs == 39


def test_keys_are_known_by_their_slots() -> None:
    column: Any = Name("key")
    found = find(Rows({"key": ExpressionError("no")}), [*candidates(3), CandidateExpression(column, 7)])
    assert found == ExpressionFailures({}, {7: "no"})
    assert found.plus(ExpressionFailures({("a", "e1"): "x"})) == ExpressionFailures({("a", "e1"): "x"}, {7: "no"})


def test_another_error_is_raised_at_once() -> None:
    rows = Rows({"e17": OSError("the disk is full")})
    with pytest.raises(OSError, match="the disk is full"):
        find(rows, candidates(1000))
    assert rows.jobs == 1


def test_a_batch_that_is_broken_off_tries_no_more() -> None:
    def broken_off() -> None:
        raise KeyboardInterrupt

    rows: Any = Rows({})
    with pytest.raises(KeyboardInterrupt):
        failing(rows, candidates(5), broken_off)
    assert rows.jobs == 0
