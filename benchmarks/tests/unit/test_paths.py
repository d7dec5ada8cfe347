"""Child processes import the same packages as this process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft
import weft_bench
from weft_bench.paths import package_folders, python_path


def test_a_child_imports_the_same_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    program = "import weft, weft_bench; print(weft.__file__, weft_bench.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": python_path()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [weft.__file__, weft_bench.__file__]


def test_what_was_on_the_path_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert python_path().split(os.pathsep) == [*package_folders(), "/mine"]
