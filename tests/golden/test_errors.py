"""Errors of queries that cannot be bound: the code, a message that names the object, and no time lost.

`error_cases.py` describes the files. `make golden-update` rewrites the expected part; read what changed.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.error_cases import PATHS, RULE, BadQuery, error_text, read_cases
from tests.support.sql_streams import STREAMS
from weft.errors import QueryError
from weft.sql import bind

CASES = [case for path in PATHS for case in read_cases(path)]


def refuse(sql: str) -> QueryError:
    """Return the error that binding a query raises."""
    with pytest.raises(QueryError) as caught:
        bind(sql, STREAMS)
    return caught.value


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_errors(path: Path, request: pytest.FixtureRequest) -> None:
    queries, _, expected = path.read_text(encoding="utf-8").partition(RULE)
    errors = "".join(error_text(case.name, refuse(case.sql)) for case in read_cases(path))
    if request.config.getoption("--update"):
        path.write_text(queries + RULE + errors, encoding="utf-8")
    else:
        assert errors == expected, "run `make golden-update` if the change is meant"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error_is_quick_short_and_in_style(case: BadQuery) -> None:
    began = time.process_time()
    error = refuse(case.sql)
    assert time.process_time() - began < 10
    assert len(str(error)) < 2000
    assert "weft$" not in str(error)
    first_word = error.message.split()[0]
    assert first_word[0].islower() or not first_word[0].isalpha() or first_word.isupper()
    assert not error.message.endswith(".")
    assert all(text.endswith((".", "…")) for text in (error.detail, error.hint) if text)


def test_every_code_of_a_query_error_occurs() -> None:
    codes = {case.code for path in PATHS for case in read_cases(path)}
    assert codes == {error.code for error in QueryError.__subclasses__()}


def test_queries_and_names_are_distinct() -> None:
    assert len(CASES) >= 250
    assert len({case.sql for case in CASES}) == len(CASES)
    for path in PATHS:
        names = [case.name for case in read_cases(path)]
        assert len(set(names)) == len(names), path.name


def test_text_that_is_no_text() -> None:
    with pytest.raises(QueryError, match="must be text"):
        bind(None, STREAMS)  # type: ignore[arg-type]


def test_no_streams_at_all() -> None:
    with pytest.raises(QueryError) as caught:
        bind("SELECT 1 FROM x", {})
    assert caught.value.hint == "Declare it first."
