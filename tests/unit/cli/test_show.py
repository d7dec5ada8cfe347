"""Answers as people read them."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from weft.cli import show


def text(renderable: Any) -> list[str]:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(renderable)
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        (True, "true"),
        (1.5, "1.5"),
        ([1, None], "[1, null]"),
        ({"a": "é"}, '{"a": "é"}'),
        ("two\nlines", "two\\nlines"),
        ("\x1b[2Jgone\x9b", "\\x1b[2Jgone\\x9b"),
    ],
)
def test_a_value_stays_in_its_line_and_gives_no_orders_to_the_terminal(value: object, shown: str) -> None:
    assert show.cell(value) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, "–"), (0, "0"), (3, "3"), (0.25, "0.2"), (9.96, "10.0"), (12.3, "12"), (1234567, "1,234,567")],
)
def test_counts_and_rates(number: float | None, shown: str) -> None:
    assert show.count(number) == shown


def test_columns_become_wider_but_never_narrower() -> None:
    lines = show.Rows([{"name": "n", "type": "decimal(10,2)"}, {"name": "s", "type": "string"}])
    assert lines.add([["1.00", "a"]]) == ["1.00  a"]
    assert lines.add([["100.00", "b"], ["2.00", "c"]]) == ["100.00  b", "  2.00  c"]
    assert lines.header() == "     n  s"


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([None, 0.0], ""), ([0.0, 7.0], "▁█"), ([1.0, None, 2.0], "▅ █"), ([-1.0, 1.0], "▁█")],
)
def test_a_sparkline(values: list[float | None], line: str) -> None:
    assert show.sparkline(values) == line


def test_a_tenant_that_may_not_see_the_plan_sees_its_operators() -> None:
    node = {"id": "store:1", "kind": "store", "title": "rows of a by k", "detail": "", "queries": ["mine"], "others": 2}
    header, line = text(show.plan({"text": "", "nodes": [node | {"rows_per_second": None}], "edges": []}))  # type: ignore[typeddict-item, list-item]
    assert header.split() == ["kind", "queries", "rows/s", "operator"]
    assert line.split(maxsplit=3) == ["store", "3", "–", "rows of a by k"]
