"""README, semantics and SQL reference agree with each other and with the code on what queries can say."""

from __future__ import annotations

import re

import pytest

from tests.meta.project import ROOT
from tests.support.engine_sample import STREAMS
from weft.errors import UnsupportedQuery
from weft.sql import bind
from weft.sql.syntax.scan import MOST_RELATIONS

README = (ROOT / "README.md").read_text(encoding="utf-8")
SEMANTICS = (ROOT / "docs" / "explanation" / "semantics.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
NUMBERS = {"six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
REFUSED = {
    "outer joins": "SELECT p.x FROM a [TUMBLE 1 SECOND] p LEFT JOIN b [TUMBLE 1 SECOND] q ON p.k = q.k",
    "subqueries": "SELECT x FROM (SELECT x FROM a)",
    "`WITH`": "WITH t AS (SELECT x FROM a) SELECT x FROM t",
    "`UNION`": "SELECT x FROM a UNION ALL SELECT x FROM b",
    "`DISTINCT`": "SELECT DISTINCT x FROM a",
    "`ORDER BY`": "SELECT x FROM a ORDER BY x",
    "`OVER`": "SELECT row_number() OVER (PARTITION BY k ORDER BY x) FROM a",
}


def windows(text: str) -> set[str]:
    """Return the kinds of windows that a page shows, such as TUMBLE."""
    return set(re.findall(r"\[(TUMBLE|RANGE|SESSION|UNBOUNDED)\b", text))


def test_all_pages_name_the_same_windows() -> None:
    assert windows(README) == windows(SEMANTICS) == windows(REFERENCE)


@pytest.mark.parametrize("page", [README, SEMANTICS], ids=["README", "semantics"])
def test_the_number_of_relations_is_that_of_the_code(page: str) -> None:
    words = re.findall(r"up to (\w+)\s+relations", page)
    assert words
    assert {NUMBERS[word] if word in NUMBERS else int(word) for word in words} == {MOST_RELATIONS}


@pytest.mark.parametrize("feature", REFUSED)
def test_what_the_readme_excludes_is_refused(feature: str) -> None:
    assert feature in README
    with pytest.raises(UnsupportedQuery):
        bind(REFUSED[feature], STREAMS)
