"""Two records side by side: what is noise, what got better, what cannot be compared."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.tests.unit.reports.made_up import cell, run, with_cells
from weft_bench.compare import CannotCompare, Change, Line, compare, main, ratio, read, warnings
from weft_bench.record import Cell, Run, to_json


def write(path: Path, record: Run) -> str:
    path.write_text(json.dumps(to_json(record)), encoding="utf-8")
    return str(path)


def line(before: Run, after: Run, title: str, *, threshold: float = 0.1) -> Line:
    (one,) = [line for line in compare(before, after, threshold=threshold) if line.title == title]
    return one


@pytest.mark.parametrize(
    ("rate", "change"),
    [(100.0, Change.SAME), (109.0, Change.SAME), (92.0, Change.SAME), (120.0, Change.BETTER), (80.0, Change.WORSE)],
)
def test_throughput_above_noise(rate: float, change: Change) -> None:
    found = line(with_cells(cell("weft", 1, 100.0)), with_cells(cell("weft", 1, rate)), "sustainable throughput")
    assert (found.change, found.ratio) == (change, rate / 100)


def test_latency_the_other_way_round() -> None:
    slow, fast = with_cells(cell("weft", 1, 1.0, middle=0.4)), with_cells(cell("weft", 1, 1.0, middle=0.2))
    assert line(slow, fast, "event-time latency p99").change is Change.BETTER
    assert line(fast, slow, "event-time latency p99").change is Change.WORSE
    assert line(fast, slow, "event-time latency p99", threshold=1.5).change is Change.SAME


def test_some_figures_only_change() -> None:
    one = cell("weft", 1, 1.0)
    before, after = with_cells(one), with_cells(replace(one, cores=0.5, state_bytes=None))
    assert line(before, after, "processor use").change is Change.OTHER
    gone = line(before, after, "state")
    assert (gone.change, gone.ratio) == (Change.OTHER, None)


def test_nothing_over_nothing() -> None:
    assert (ratio(0.0, 0.0), ratio(0.0, 2.0), ratio(2.0, 0.0)) == (1.0, math.inf, 0.0)
    one = cell("weft", 1, 1.0)
    assert line(with_cells(one), with_cells(replace(one, refused=2)), "refused requests").change is Change.WORSE


def test_failing_is_worse_than_slow() -> None:
    ran, died = with_cells(cell("weft", 1, 1.0)), with_cells(Cell("weft", 1, failure="died"))
    assert [each.change for each in compare(ran, died, threshold=0.1)] == [Change.WORSE]
    assert [each.change for each in compare(died, ran, threshold=0.1)] == [Change.BETTER]
    assert [each.change for each in compare(died, died, threshold=0.1)] == [Change.SAME]


def test_other_experiments_are_refused() -> None:
    with pytest.raises(CannotCompare, match='"sc1" and "sc2"'):
        compare(run(), replace(run(), experiment="sc2"), threshold=0.1)


def test_warnings_name_what_differs() -> None:
    machine = dict(run().machine) | {"cores": 64}
    settings = dict(run().settings) | {"interval": 1.0, "command": ["other"], "rounds": 9}
    other = replace(run(), machine=machine, settings=settings, cells=(cell("weft", 7, 1.0),))
    said = list(warnings(replace(run(), cells=(cell("weft", 1, 1.0),)), other))
    assert said == [
        "machine differs: cores was 2, is 64",
        "setting differs: interval was None, is 1.0",
        "only in the first record: weft with N = 1",
        "only in the second record: weft with N = 7",
    ]
    assert list(warnings(run(), run())) == []


def test_files_that_are_no_records(tmp_path: Path) -> None:
    with pytest.raises(CannotCompare, match=r"nothing\.json"):
        read(tmp_path / "nothing.json")
    for text in ("{", "[]", '{"version": 99}', '{"version": 1}'):
        (tmp_path / "wrong.json").write_text(text, encoding="utf-8")
        with pytest.raises(CannotCompare, match="is no record of a benchmark"):
            read(tmp_path / "wrong.json")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = write(tmp_path / "a.json", with_cells(cell("weft", 1, 100.0), cell("flink", 1, 50.0)))
    after = write(tmp_path / "b.json", with_cells(cell("weft", 1, 50.0), cell("flink", 1, 50.0)))
    assert main([before, before, "--fail-on-worse"]) == 0
    capsys.readouterr()
    assert main([before, after, "--changed"]) == 0
    said = capsys.readouterr().out
    assert "sustainable throughput" in said
    assert "0.50" in said
    assert "flink" not in said
    assert "WORSE" in said
    assert main([before, after, "--fail-on-worse"]) == 1
    assert main([before, after, "--fail-on-worse", "--threshold", "1"]) == 0


def test_errors_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = write(tmp_path / "a.json", run())
    other = write(tmp_path / "b.json", replace(run(), experiment="sc2"))
    assert main([before, other]) == 2
    assert "different experiments cannot be compared" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([before, before, "--threshold", "many"])
    assert ended.value.code == 2
    assert "argument --threshold: 'many' is no share" in capsys.readouterr().err
