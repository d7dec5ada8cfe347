"""docs/reference/sql.md says what the binder does: examples, windows, types, limits and error codes."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

from tests.meta.sql_pages import blocks, codes, example_streams, rows, sections, stream
from weft.errors import QueryError
from weft.plan.expression import to_sql
from weft.plan.query import BoundQuery
from weft.plan.types import DataType, Kind
from weft.plan.window import Range, Session, Sliding, Unbounded
from weft.sql import bind, parse_schema
from weft.sql.functions.allowlist import COMPUTED
from weft.sql.functions.growth import MOST_ADDED, MOST_ADDED_IN_LAMBDA, MOST_COPIES, MOST_COPIES_OF_QUERY
from weft.sql.functions.harden import LONGEST_NUMBER
from weft.sql.functions.matching import _LONGEST_LIKE, _MOST_WILDCARDS
from weft.sql.names.output import MOST_OUTPUTS
from weft.sql.patterns.pattern import LONGEST_PATTERN
from weft.sql.syntax.duration import LONGEST, UNITS, read_micros
from weft.sql.syntax.scan import _MOST_NESTED_TYPES, DEEPEST, LONGEST_TEXT, MOST_RELATIONS
from weft.sql.syntax.spark_text import _LONGEST
from weft.sql.syntax.window_clause import MOST_WINDOWS_PER_TUPLE

PAGE = sections("sql.md")
STREAMS = example_streams()
REFUSED = re.compile(r"^-- refused: (?P<code>\w+)$", re.MULTILINE)
EXAMPLES = [
    text.strip()
    for section in PAGE.values()
    for block in blocks(section, "sql")
    for text in block.split(";\n")
    if text.strip()
]
WINDOWS = rows(PAGE["Windows"], "Window")
TYPES = rows(PAGE["Data types"], "Type")
LIMITS = {
    "length of a query text": f"{LONGEST_TEXT:,} characters",
    "relations of a query": f"{MOST_RELATIONS}",
    "columns of a result, with `*` written out": f"{MOST_OUTPUTS:,}",
    "levels of nesting": f"{DEEPEST}",
    "array, map and struct types named in a query": f"{_MOST_NESTED_TYPES}",
    "length of one expression in Spark's spelling": f"{_LONGEST:,} characters",
    "length of a window, or distance of event times": f"{LONGEST.days:,} days",
    "windows that hold one row": f"{MOST_WINDOWS_PER_TUPLE:,}",
    "digits of a decimal": "38",
    "length of a text that is read as a decimal": f"{LONGEST_NUMBER:,} characters",
    "wildcards of a `LIKE` pattern": f"{_MOST_WILDCARDS}",
    "length of a `LIKE` pattern": f"{_LONGEST_LIKE:,} characters",
    "length of a regular expression": f"{LONGEST_PATTERN:,} characters",
    "copies of a column in one value": f"{MOST_COPIES}",
    "characters in one value beside the columns": f"{MOST_ADDED:,}",
    "copies of a column in all values of a query": f"{MOST_COPIES_OF_QUERY:,}",
    "characters that a lambda adds to an element": f"{MOST_ADDED_IN_LAMBDA}",
}


def bound(text: str) -> BoundQuery:
    return bind(text, STREAMS)


def selected(expression: str) -> str | None:
    """The type of a selected expression."""
    type_ = bound(f"SELECT {expression} AS x FROM purchases").outputs[0].type
    return None if type_ is None else type_.ddl()


def predicate(condition: str) -> str:
    found = bound(f"SELECT ts FROM purchases WHERE {condition}").relations[0].predicate
    assert found is not None
    return to_sql(found)


def query_codes() -> set[str]:
    return {error.code for error in QueryError.__subclasses__()}


# ---- examples


def test_the_page_has_examples_of_both_kinds() -> None:
    refused = [text for text in EXAMPLES if REFUSED.search(text)]
    assert len(refused) >= 20
    assert len(EXAMPLES) - len(refused) >= 20


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_bound_or_refused_as_the_page_says(text: str) -> None:
    refused = REFUSED.search(text)
    if refused is None:
        assert bound(text).outputs
        return
    with pytest.raises(QueryError) as caught:
        bound(text)
    assert caught.value.code == refused["code"]


# ---- windows


def window_of(text: str) -> Sliding | Range | Session | Unbounded | None:
    """The window that a query has with this window clause or window function."""
    if not text.startswith("["):
        return bound(f"SELECT COUNT(*) AS n FROM purchases GROUP BY {text}").relations[0].window
    if text.upper().startswith("[SESSION"):
        return bound(f"SELECT COUNT(*) AS n FROM purchases {text} GROUP BY userID").relations[0].window
    return bound(f"SELECT ts FROM purchases {text} AS p").relations[0].window


def test_every_window_can_be_written_as_the_page_says() -> None:
    forms = [re.sub(r"\b[rsgm]\b", "5 SECONDS", codes(row[0])[0]) for row in WINDOWS]
    examples = [codes(row[1])[0] for row in WINDOWS]
    assert {type(window_of(text)) for text in forms} == {Sliding, Range, Session, Unbounded}
    assert [type(window_of(text)) for text in examples] == [type(window_of(text)) for text in forms]


def test_every_unit_is_listed_once_with_others_of_its_length() -> None:
    listed = [codes(row[1]) for row in rows(PAGE["Windows"], "Unit")]
    # µ is in Unicode twice.
    assert sorted(unit for units in listed for unit in units) == sorted(unit for unit in UNITS if "\u03bc" not in unit)
    lengths = [{read_micros(f"1 {unit}") for unit in units} for units in listed]
    assert all(len(length) == 1 for length in lengths)
    assert len({next(iter(length)) for length in lengths}) == len(listed)


# ---- aggregate functions


def test_every_aggregate_function_is_listed() -> None:
    listed = [name for row in rows(PAGE["Aggregation"], "Function") for name in codes(row[0]) if name.islower()]
    assert set(listed) == COMPUTED
    called = {codes(row[0])[0].partition("(")[0] for row in rows(PAGE["Aggregation"], "Call")}
    assert called == COMPUTED


@pytest.mark.parametrize("row", rows(PAGE["Aggregation"], "Call"))
def test_types_of_aggregates(row: list[str]) -> None:
    output = bound(f"SELECT {codes(row[0])[0]} AS x FROM purchases [TUMBLE 5 SECONDS]").outputs[0]
    assert output.type is not None
    assert [output.type.ddl()] == codes(row[1])


# ---- types and expressions


def written_type(text: str) -> DataType:
    return parse_schema(f"x {text}").fields[0].type


def test_every_type_is_listed() -> None:
    listed = {written_type(codes(row[0])[0]).kind for row in TYPES}
    assert listed == set(Kind)
    assert len(TYPES) == len(Kind) + 2  # arrays, maps and structs are one kind


@pytest.mark.parametrize("row", TYPES)
def test_names_and_literals_of_a_type(row: list[str]) -> None:
    type_ = written_type(codes(row[0])[0])
    assert [name for name in codes(row[1]) if written_type(name) != type_] == []
    (literal,) = codes(row[2])
    found = bound(f"SELECT {literal} AS x FROM purchases").outputs[0].type
    assert found is None or found.kind is type_.kind


@pytest.mark.parametrize("row", TYPES)
def test_what_a_type_can_be_used_for(row: list[str]) -> None:
    streams = {"s": stream("s", f"ts timestamp, x {codes(row[0])[0]}")}
    questions = [
        ["SELECT 1 AS one FROM s [RANGE 5 s] a JOIN s [RANGE 5 s] b ON a.x = b.x", _grouped("count(*)", "GROUP BY x")],
        [_grouped("min(x)"), _grouped("max(x)"), _grouped("count(DISTINCT x)")],
        [_grouped("sum(x)"), _grouped("avg(x)"), _grouped("stddev(x)"), _grouped("percentile_approx(x, 0.5)")],
    ]
    for said, texts in zip(row[3:], questions, strict=True):
        accepted = []
        for text in texts:
            with suppress(QueryError):
                bind(text, streams)
                accepted.append(text)
        assert accepted == (texts if said == "yes" else []), said


def _grouped(call: str, group: str = "") -> str:
    return f"SELECT {call} AS y FROM s [TUMBLE 5 s] {group}"


@pytest.mark.parametrize("row", [*rows(PAGE["Literals"], "Literal"), *rows(PAGE["Operators"], "Expression")])
def test_types_of_literals_and_expressions(row: list[str]) -> None:
    assert [selected(codes(row[0])[0])] == codes(row[1])


@pytest.mark.parametrize("row", rows(PAGE["Operators"], "Written"))
def test_precedence(row: list[str]) -> None:
    written, meant = codes(row[0])[0], codes(row[1])[0]
    assert written != meant
    assert predicate(written) == predicate(meant)


@pytest.mark.parametrize("who", ["weft", "Spark"])
def test_who_computes_an_expression(who: str) -> None:
    examples = [
        code for row in rows(PAGE["Who computes an expression"], f"Computed by {who}") for code in codes(row[1])
    ]
    assert len(examples) >= 9
    notices = {example: bound(f"SELECT ts FROM purchases WHERE {example}").notices for example in examples}
    assert [example for example, found in notices.items() if bool(found) is (who == "weft")] == []


# ---- limits and errors


def test_limits_are_those_of_the_code() -> None:
    listed = rows(PAGE["Limits"], "Limit")
    assert {row[0]: row[1] for row in listed} == LIMITS
    assert {code for row in listed for code in codes(row[2])} <= query_codes()


def test_a_decimal_has_38_digits() -> None:
    assert written_type("decimal(38,0)").precision == 38
    assert selected("9" * 38) == "decimal(38,0)"
    with pytest.raises(QueryError) as caught:
        selected("9" * 39)
    assert caught.value.code == "type_mismatch"


def test_every_error_code_of_a_query_is_listed() -> None:
    assert [codes(row[0])[0] for row in rows(PAGE["Errors"], "Code")] == [
        error.code for error in QueryError.__subclasses__()
    ]


def test_codes_of_refused_examples_are_listed() -> None:
    assert {found["code"] for text in EXAMPLES if (found := REFUSED.search(text))} <= query_codes()
