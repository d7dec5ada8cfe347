from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft_bench.case import Case, Outcome, System
from weft_bench.data import Load, generate
from weft_bench.run import read_outcome, run_child

LOAD = Load(rate=10, keys=3)
SPIKE = Case(System.SPIKE, 2, 1, load=LOAD)
PROGRAM = """
import json, os, sys
print("some other text")
print(json.dumps({"input_rows_per_s": 5, "batch_ms": 250.0, "pairs": 1234, "args": sys.argv[1:]}))
assert os.path.isdir(os.environ["TMPDIR"] + "/A")
"""


def test_the_outcome_is_found_among_other_lines() -> None:
    outcome = Outcome(1.0, 2.0, 3)
    said = ["a warning", "{broken", json.dumps({"outcome": outcome.to_json()})]
    assert read_outcome(said, Case(System.WEFT, 1, 1)) == outcome
    assert read_outcome(said[:2], Case(System.WEFT, 1, 1)) is None


def test_a_program_beside_is_run_with_the_same_sizes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    generate(tmp_path, LOAD, 1)
    outcome = run_child(SPIKE, tmp_path, limit=60.0, spike=program)
    assert (outcome.rows_per_second, outcome.batch_seconds, outcome.note) == (5, 0.25, "1,234 pairs")
    assert outcome.pss > 0
    assert list(tmp_path.glob("case-*")) == []


def test_a_child_that_fails_is_an_outcome_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; sys.exit('went wrong')", encoding="utf-8")
    generate(tmp_path, LOAD, 1)
    outcome = run_child(SPIKE, tmp_path, limit=60.0, spike=program)
    assert (outcome.note, outcome.batches) == ("failed with status 1", 0)
    assert "went wrong" in capsys.readouterr().err


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft_bench.run.START_UP", 0.5)
    program = tmp_path / "program.py"
    program.write_text("import threading; threading.Event().wait()", encoding="utf-8")
    generate(tmp_path, LOAD, 1)
    outcome = run_child(SPIKE, tmp_path, limit=0.5, spike=program)
    assert outcome.note == "ended after 1 s without an outcome"
