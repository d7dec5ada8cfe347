"""What is shown while a run goes: lines that are not too many, or bars."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks.tests.unit.reports.made_up import cell, limit
from weft_bench.driver.plan import Progress
from weft_bench.record import Cell
from weft_bench.reports.progress import Bars, Lines, describe, display, summary

NOW = Progress("weft", "saturate", 0.5, 2e6, 1.5e6, 12_000, 20, 0.25, 3 << 30)


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=200, legacy_windows=False)


def said(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


def test_a_moment_in_words() -> None:
    text = "20 live, 2.00 M rows/s in, 1.50 M passed, 12.0 k waiting, latency 250 ms, 3.00 GiB"
    assert describe(NOW) == text
    assert "latency –" in describe(replace(NOW, latency=None))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Cell("weft", 1), "nothing was measured"),
        (Cell("weft", 1, failure="died\nearly"), "FAILED: died early"),
        (limit("duckdb", 1, 2000.0), "2.00 k rows/s in one pass"),
        (cell("weft", 1, 1000.0), "sustains 1.00 k rows/s, latency p99 1.04 s, deployment p99 728 ms"),
        (
            replace(cell("weft", 1, 1000.0), sustainable=None, event_latency=None, deployment=None),
            "1.05 k rows/s when saturated, latency p99 1.35 s",
        ),
    ],
)
def test_a_cell_in_words(found: Cell, text: str) -> None:
    assert summary(found) == text


def test_lines_are_not_too_many() -> None:
    where, now = console(terminal=False), [0.0]
    with Lines(where, 2, clock=lambda: now[0]) as lines:
        lines.begin("weft with 1 query")
        for now[0], phase in (
            (1.0, "start"),
            (2.0, "start"),
            (3.0, "saturate"),
            (17.0, "saturate"),
            (19.0, "saturate"),
        ):
            lines.tell(replace(NOW, phase=phase))
        lines.end("weft with 1 query", Cell("weft", 1, sustainable=1000.0))
    heads = [line.split(":")[0] for line in said(where).splitlines()]
    assert heads == ["[1/2] weft with 1 query", "  start", "  saturate", "  saturate", "  weft with 1 query"]


def test_bars_on_a_terminal() -> None:
    where = console(terminal=True)
    with display(where, 1) as shown:
        assert isinstance(shown, Bars)
        shown.begin("weft with 1 query")
        shown.tell(NOW)
        shown.tell(replace(NOW, phase="steady"))
        shown.end("weft with 1 query", Cell("weft", 1, sustainable=1000.0))
    assert "weft with 1 query: sustains 1.00 k rows/s" in said(where)
    assert "100%" in said(where)


def test_lines_elsewhere() -> None:
    assert isinstance(display(console(terminal=False), 1), Lines)
