"""Malformed and hostile queries: the right code, a message that names the object, and no time lost."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.support.sql_streams import STREAMS
from weft.errors import QueryError
from weft.sql import bind

_PYTHON = re.compile(r"\{(.*?)\}")


def _cases() -> list[tuple[str, str, str]]:
    lines = Path(__file__).with_name("bad_queries.txt").read_text(encoding="utf-8").split("\n")
    cases = []
    for line in lines:
        if line and not line.startswith("#"):
            code, wanted, query = line.split(" | ", 2) if line.count(" | ") >= 2 else (*line.split(" | "), "")
            cases.append((code, wanted, _PYTHON.sub(lambda found: str(eval(found[1])), query)))
    return cases


CASES = _cases()


def test_there_are_many() -> None:
    assert len(CASES) >= 40
    assert len({case[2] for case in CASES}) == len(CASES)


@pytest.mark.parametrize(("code", "wanted", "query"), CASES, ids=[f"{case[0]}: {case[2][:60]!a}" for case in CASES])
def test_is_refused(code: str, wanted: str, query: str) -> None:
    began = time.process_time()
    with pytest.raises(QueryError) as caught:
        bind(query, STREAMS)
    assert caught.value.code == code
    assert wanted in caught.value.message
    assert caught.value.message[0].islower() or not caught.value.message[0].isalpha() or wanted.isupper()
    assert len(str(caught.value)) < 2000
    assert "weft$" not in str(caught.value)
    assert time.process_time() - began < 10


def test_text_that_is_no_text() -> None:
    with pytest.raises(QueryError, match="must be text"):
        bind(None, STREAMS)  # type: ignore[arg-type]


def test_no_streams_at_all() -> None:
    with pytest.raises(QueryError) as caught:
        bind("SELECT 1 FROM x", {})
    assert caught.value.hint == "Declare it first."
