"""The reproduction of SASPAR's fig. 8, at sizes that take no time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft_bench.partitioning import AUTO, EXACT, FIGURE, QUICK, WAYS, Line, Measured, main, make_workload, met_bars

PNG = b"\x89PNG"


def test_small_run_writes_tables_json_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--exact-seconds", "1", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "fig. 8a" in said
    assert "fig. 8b" in said
    assert "MISSED" not in said
    report = json.loads((tmp_path / "partitioning.json").read_text(encoding="utf-8"))
    assert [line["size"] for line in report["lines"]] == [str(size) for size in QUICK]
    assert {each["way"] for each in report["lines"][0]["measured"]} <= set(WAYS)
    assert (tmp_path / "partitioning.png").read_bytes().startswith(PNG)


def test_the_bar_is_one_of_the_sizes() -> None:
    assert str(FIGURE[-1]) == "500q 64p 256g"


def test_a_seed_gives_the_same_workload() -> None:
    assert make_workload(QUICK[0], seed=3) == make_workload(QUICK[0], seed=3)
    assert make_workload(QUICK[0], seed=3) != make_workload(QUICK[0], seed=4)


def test_missed_bars_are_told() -> None:
    slow = Line("1q 1p 1g", 10.0, 9.0, (Measured(AUTO, 9.0, 11.0, 1.0), Measured(EXACT, 1.0, 8.0, 8.0)))
    assert [met for _, met in met_bars([slow])] == [False, False]
    assert slow.accuracy(AUTO) == 8.0 / 11.0
    assert slow.accuracy("tree") is None
    assert slow.bound == 8.0
