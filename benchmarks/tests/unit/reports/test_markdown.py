"""The report has everything that was measured, in figures people can read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.tests.unit.reports.made_up import cell, run, with_cells
from weft_bench.record import Cell
from weft_bench.reports.markdown import NOTHING, said, table, to_markdown
from weft_bench.reports.ratios import Unit


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, Unit.ROWS, NOTHING),
        (0.0, Unit.ROWS, "0.00"),
        (12.3, Unit.ROWS, "12.3"),
        (999.7, Unit.ROWS, "1.00 k"),
        (45_600.0, Unit.ROWS, "45.6 k"),
        (1_020_000.0, Unit.ROWS, "1.02 M"),
        (158_000_000.0, Unit.ROWS, "158 M"),
        (2e9, Unit.ROWS, "2.00 G"),
        (0.0123, Unit.SECONDS, "12.3 ms"),
        (0.9999, Unit.SECONDS, "1.00 s"),
        (123.4, Unit.SECONDS, "123 s"),
        (512, Unit.BYTES, "512 B"),
        (3 << 30, Unit.BYTES, "3.00 GiB"),
        (3 << 40, Unit.BYTES, "3.00 TiB"),
        (1.7, Unit.CORES, "1.7"),
        (1234.0, Unit.QUERIES, "1,234"),
        (3.0, Unit.COUNT, "3"),
    ],
)
def test_figures_with_units(value: float | None, unit: Unit, text: str) -> None:
    assert said(value, unit) == text


def test_a_table_keeps_its_columns() -> None:
    assert table(["a", "b"], [("x|y", "two\nlines"), ("", "z")], left=1) == (
        "| a | b |\n| --- | ---: |\n| x\\|y | two lines |\n| – | z |"
    )
    assert table(["a"], []) == ""


def test_the_report_has_all_parts() -> None:
    text = to_markdown(run(), {"throughput.png": "Throughput"})
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        "# SC1: queries come until so many are live, then stay",
        "## Machine",
        "## Settings",
        "## Goals",
        "## Throughput",
        "## Ratios",
        "### Where a peer is better",
        "## Event-time latency",
        "## Processing-time latency",
        "## Deployment",
        "## Effect of new queries on old ones",
        "## Resources",
        "## Failures",
        "## Notes",
        "## Plots",
        "## Attempts of the search",
    ]
    assert "```\nweft-bench run sc1 --systems weft,spark,flink\n```" in text
    assert "- memory: 24.0 GiB" in text
    assert "- base rate: as the experiment says" in text
    assert "![Throughput](throughput.png)" in text


@pytest.mark.parametrize(
    "line",
    [
        "| 20 | flink | 30.0 k | 31.5 k | 630 k | ran |",
        "| 1 | duckdb | – | 9.00 M | 9.00 M | one pass, not streaming |",
        "| 100 | flink | – | – | – | failed |",
        "| 20 | 175 × | 46.7 × | **0.56 ×** |",
        "| 100 | only weft ran | only weft ran | **0.75 ×** |",
        "| 1 | flink | event-time latency p99 | 315 ms | 1.05 s | 3.33 × |",
        "| 100 | flink | Java heap space |",
        "| 1 | weft | 444 ms | 121 ms | 404 ms | 646 ms | 768 ms | 1.05 s | 1.62 s |",
        "| 1 | weft | 1 | 1.90 M | 1.90 M | +0.001 | 1.05 s | yes |",
        "| N = 20: at least 25 × Flink | 46.7 × | met |",
        "- duckdb, N = 100: one pass, 2 M rows",
    ],
)
def test_lines_of_the_report(line: str) -> None:
    assert line in to_markdown(run(), {}).splitlines()


def test_parts_without_figures_are_left_out() -> None:
    text = to_markdown(with_cells(Cell("weft", 1, failure="died")), {})
    assert "## Ratios" not in text
    assert "## Plots" not in text
    assert "## Event-time latency" not in text
    assert "| 1 | weft | died |" in text


def test_a_warm_up_is_no_effect_of_requests() -> None:
    assert "Effect of new queries" not in to_markdown(
        with_cells(replace(cell("weft", 1, 1.0), latency_during=None)), {}
    )


def test_a_run_without_failures_or_losses_says_so() -> None:
    text = to_markdown(with_cells(cell("weft", 1, 200.0, middle=0.1), cell("flink", 1, 100.0)), {})
    assert "None: every system ran with every number of queries." in text
    assert "Nowhere in this run." in text


def test_rounds_are_numbered_and_an_early_end_is_said() -> None:
    late = replace(cell("weft", 1, 200.0), failure="died when it was told to stop")
    text = to_markdown(with_cells(cell("weft", 1, 100.0), late), {})
    assert "| 1 | weft | 2 | 200 | 200 | +0.001 | 1.04 s | yes |" in text
    assert "| 1 | weft | 150 | 158 | 158 | ended early |" in text
    assert "1 of 2 rounds: died when it was told to stop" in text
