"""The summary says whether the queries agree."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.unit.demo.test_view import figures
from weft.demo.check import Verdict
from weft.demo.observe import Latency
from weft.demo.summary import conclusion, summary
from weft.demo.workload import DemoQuery, Relation

QUERY = DemoQuery("ads-7", (Relation("ads", "a", ("a.length >= 20",)),), (), None, ("a.userID", "a.length"))
RIGHT = Verdict(QUERY, rows=12_345, expected=12_345, missing=0, surplus=0, start_agrees=True)
SHORT = replace(RIGHT, rows=12_344, missing=1)


def printed(verdicts: list[Verdict], width: int) -> str:
    file = StringIO()
    Console(file=file, width=width).print(summary(figures(), verdicts, width))
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_everything_is_there_in_the_width_given(width: int) -> None:
    text = printed([RIGHT, SHORT], width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for word in (
        "weft demo: 32 s, 31 batches",
        "123,456,789 rows, of them 321 late",
        "71 came, 33 left, 5 live at the end, 99 result rows",
        "batch 0.75 s (at most 1.00 s)",
        "246,913,578 rows read once; 7,246,913,578 if each query ran apart, 29.4 × as many",
        "✓ ads-7: 12,345 rows, DuckDB alone 12,345",
        "✗ ads-7: 12,344 rows, DuckDB alone 12,345; 1 missing, 0 too many",
        QUERY.sql,
        "1 of 2 queries do NOT agree",
    ):
        assert word in words, word


def test_nothing_ends_in_blanks() -> None:
    assert [line for line in printed([RIGHT], 80).splitlines() if line != line.rstrip()] == []


def test_a_run_without_batches_can_be_summed_up() -> None:
    empty = replace(figures(0), latency=Latency((), (), ()), result_rows=None)
    Console(file=StringIO()).print(summary(empty, [], 80))


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "no query has results yet, so there is nothing to compare"),
        ([RIGHT], "1 random query agrees row for row with DuckDB running each alone"),
        ([RIGHT] * 3, "3 random queries agree row for row with DuckDB running each alone"),
        ([RIGHT, SHORT, RIGHT], "1 of 3 queries do NOT agree with DuckDB running each alone"),
        ([replace(RIGHT, surplus=1)], "1 of 1 queries do NOT agree with DuckDB running each alone"),
        ([replace(RIGHT, start_agrees=False)], "1 of 1 queries do NOT agree with DuckDB running each alone"),
    ],
)
def test_conclusion(verdicts: list[Verdict], expected: str) -> None:
    assert conclusion(verdicts).plain == expected


def test_a_wrong_start_is_named() -> None:
    assert "complete_from differs" in printed([replace(RIGHT, start_agrees=False)], 200)
