"""docs/reference/functions.md lists exactly the functions that a query may call, with their types and limits."""

from __future__ import annotations

import pytest

from tests.meta.sql_pages import codes, example_streams, prose, rows, sections
from weft.kernels.expression.pattern import _MOST_STEPS, MOST_MATCHES
from weft.sql import bind
from weft.sql.functions.allowlist import (
    CHOICE_FUNCTIONS,
    COLLECTION_FUNCTIONS,
    LAMBDAS,
    NUMBER_FUNCTIONS,
    RESULT_TYPES,
    TEXT_FUNCTIONS,
    TIME_FUNCTIONS,
)
from weft.sql.functions.argument_rules import (
    _CHARSETS,
    _RULES,
    LONGEST_FORMAT,
    LONGEST_SEARCH,
    MOST_DIGITS,
    MOST_EDITS,
    MOST_REPEATS,
)
from weft.sql.functions.growth import MOST_ADDED, MOST_ADDED_IN_LAMBDA, MOST_COPIES, MOST_COPIES_OF_QUERY
from weft.sql.functions.harden import _COMPARING, LONGEST_NUMBER
from weft.sql.functions.matching import _LONGEST_LIKE, _MOST_WILDCARDS
from weft.sql.patterns.pattern import _LARGEST, _MOST_GROUPS, LONGEST_PATTERN
from weft.sql.patterns.pattern import _MOST_REPEATS as MOST_PATTERN_REPEATS

PAGE = sections("functions.md")
STREAMS = example_streams()
FUNCTIONS = {
    "Numbers and conditions": NUMBER_FUNCTIONS,
    "Dates and times": TIME_FUNCTIONS,
    "Text": TEXT_FUNCTIONS,
    "Choosing between values": CHOICE_FUNCTIONS,
    "Arrays, maps, structs and JSON": COLLECTION_FUNCTIONS,
}
OWN = [(codes(row[0])[0], codes(row[1])[0]) for row in rows(PAGE["Computed by weft itself"], "Function")]


@pytest.mark.parametrize("title", FUNCTIONS)
def test_every_function_is_listed_once_where_it_belongs(title: str) -> None:
    listed = [codes(row[0]) for row in rows(PAGE[title], "Function")]
    assert sorted(listed) == sorted([name] for name in FUNCTIONS[title])


def test_every_function_has_arguments_a_type_and_a_meaning() -> None:
    listed = [row for title in FUNCTIONS for row in rows(PAGE[title], "Function")]
    assert [row for row in listed if len(row) != 4 or not all(row)] == []
    assert [row for row in listed if not (codes(row[1])[0].startswith("(") and codes(row[1])[0].endswith(")"))] == []


def test_result_types_are_as_written() -> None:
    written = {codes(row[0])[0]: row[2] for title in FUNCTIONS for row in rows(PAGE[title], "Function")}
    assert {name: written[name] for name in RESULT_TYPES} == {
        name: f"`{type_.ddl()}`" for name, type_ in RESULT_TYPES.items()
    }


@pytest.mark.parametrize(("name", "example"), OWN)
def test_weft_computes_the_functions_that_the_page_says_it_does(name: str, example: str) -> None:
    assert example.startswith(f"{name}(")
    assert bind(f"SELECT ts FROM purchases WHERE {example}", STREAMS).notices == ()


def test_every_function_with_a_rule_is_listed() -> None:
    listed = [name for row in rows(PAGE["Rules for arguments"], "Functions") for name in codes(row[0])]
    assert sorted(listed) == sorted({*_RULES, *LAMBDAS, *_COMPARING})


def test_limits_of_arguments_are_as_written() -> None:
    rules = prose(PAGE["Rules for arguments"])
    assert f"a literal from −{MOST_DIGITS} to {MOST_DIGITS}." in rules
    assert f"a literal from 0 to {MOST_DIGITS}, or a format" in rules
    assert f"The count is a literal from 0 to {MOST_REPEATS:,}." in rules
    assert f"The format is a literal of at most {LONGEST_FORMAT} characters." in rules
    assert f"a literal of at most {LONGEST_SEARCH:,} characters" in rules
    assert f"a literal from 0 to {MOST_EDITS}." in rules
    (charsets,) = (row[1] for row in rows(PAGE["Rules for arguments"], "Functions") if "`encode`" in row[0])
    assert {charset.strip("'").lower() for charset in codes(charsets)} == _CHARSETS


def test_limits_of_sizes_are_as_written() -> None:
    sizes = prose(PAGE["Size of values"])
    assert f"at most {MOST_COPIES} times, and at most {MOST_ADDED:,} characters beside." in sizes
    assert f"at most {MOST_COPIES_OF_QUERY:,} times, and at most {MOST_ADDED:,} characters beside." in sizes
    assert f"at most {MOST_ADDED_IN_LAMBDA} characters to each element" in sizes
    converted = prose(PAGE["Converting text to times and decimals"])
    assert f"more than {LONGEST_NUMBER:,} characters is not a decimal" in converted


def test_limits_of_patterns_are_as_written() -> None:
    patterns = prose(PAGE["Patterns"])
    assert f"more than {LONGEST_PATTERN:,} characters, or of more than {_LARGEST} characters and sets" in patterns
    assert f"more than {MOST_PATTERN_REPEATS} repetitions in `{{n,m}}`, more than {_MOST_GROUPS} groups" in patterns
    assert f"at most {_MOST_WILDCARDS} wildcards and {_LONGEST_LIKE:,} characters" in patterns
    assert f"may match {MOST_MATCHES:,} times in a text" in patterns
    assert f"{_MOST_STEPS:,} / n times" in patterns
    assert "up to 7,000 bytes any number of times" in patterns
    assert _MOST_STEPS >= 7_000**2
