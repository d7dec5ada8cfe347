"""docs/functions.md lists exactly the functions that a query may call."""

from __future__ import annotations

import re

from tests.meta.project import ROOT
from weft.plan.pattern import LONGEST_PATTERN
from weft.sql.function import (
    CHOICE_FUNCTIONS,
    COLLECTION_FUNCTIONS,
    NUMBER_FUNCTIONS,
    TEXT_FUNCTIONS,
    TIME_FUNCTIONS,
)
from weft.sql.rules import LONGEST_FORMAT, LONGEST_SEARCH, MOST_DIGITS, MOST_EDITS, MOST_REPEATS
from weft.sql.size import MOST_ADDED, MOST_ADDED_IN_LAMBDA, MOST_COPIES, MOST_COPIES_OF_QUERY

TEXT = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8")
SECTIONS = dict(zip(*[iter(re.split(r"^## (.*)$", TEXT, flags=re.MULTILINE)[1:])] * 2, strict=True))


def listed(title: str) -> set[str]:
    return set(re.findall(r"`([a-z_0-9]+)`", SECTIONS[title]))


def test_every_function_is_listed_where_it_belongs() -> None:
    assert listed("Numbers and conditions") == NUMBER_FUNCTIONS
    assert listed("Dates and times") == TIME_FUNCTIONS
    assert listed("Text") == TEXT_FUNCTIONS
    assert listed("One of several values") == CHOICE_FUNCTIONS
    assert listed("Arrays, maps, structs and JSON") == COLLECTION_FUNCTIONS


def test_limits_are_as_written() -> None:
    rules = SECTIONS["Rules for arguments"]
    assert f"from −{MOST_DIGITS} to {MOST_DIGITS}" in rules
    assert f"a literal up to {MOST_REPEATS:,}" in rules
    assert f"a literal of at most {LONGEST_FORMAT} characters" in rules
    assert f"a literal of at most {LONGEST_SEARCH:,} characters" in rules
    assert f"a literal limit up to {MOST_EDITS}" in rules
    assert (MOST_COPIES, MOST_ADDED) == (100, 1_000_000)
    assert f"add {MOST_ADDED_IN_LAMBDA} characters to an element" in rules
    assert f"together may hold a column {MOST_COPIES_OF_QUERY:,} times" in rules
    assert f"{LONGEST_PATTERN:,} characters" in SECTIONS["Patterns"]
