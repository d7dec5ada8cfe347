"""Pictures are drawn for what was measured, and only for that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.tests.unit.reports.made_up import cell, limit, run, with_cells
from weft_bench.record import Cell
from weft_bench.reports.plots import draw, style

ALL = {"throughput.png", "latency.png", "latency-over-time.png", "deployment.png", "resources.png"}


def test_all_pictures_of_a_full_run(tmp_path: Path) -> None:
    drawn = draw(replace(run(), cells=run().cells[::3]), tmp_path)
    assert set(drawn) == ALL == {path.name for path in tmp_path.iterdir()}
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in drawn)


def test_nothing_to_show_is_no_picture(tmp_path: Path) -> None:
    assert draw(with_cells(Cell("weft", 1, failure="died")), tmp_path) == {}
    assert draw(with_cells(), tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_limits_and_failures_alone_can_be_drawn(tmp_path: Path) -> None:
    cells = (limit("duckdb", 1, 10.0), Cell("weft", 1, failure="died"))
    assert set(draw(with_cells(*cells), tmp_path)) == {"throughput.png", "resources.png"}


def test_a_duration_of_nothing_does_not_break_the_logarithms(tmp_path: Path) -> None:
    one = cell("fake", 1, 100.0, middle=0.0)
    only = replace(
        one, samples=(), attempts=(), overall=None, sustainable=None, slowest=None, peak_memory=0, cores=None
    )
    assert set(draw(with_cells(only), tmp_path)) == {"latency.png", "deployment.png"}


def test_systems_look_different() -> None:
    known = (
        "weft",
        "weft-delivered",
        "spark",
        "spark-shared",
        "flink",
        "flink-jobs",
        "duckdb",
        "duckdb-shared",
        "polars",
        "other",
    )
    assert len({style(name)[0] for name in known}) == len({style(name)[1] for name in known}) == len(known)
