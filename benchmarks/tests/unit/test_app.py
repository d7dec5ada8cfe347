"""The command `weft-bench`: its programs exist, and get their arguments unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import pytest

from weft.errors import InvalidSetting
from weft_bench import app
from weft_bench.app import FAILED, INTERRUPTED, PROGRAMS, main
from weft_bench.paths import python_path

NAMES = ["run", "compare", "list", "quick", "deployment", "join-aggregate", "churn", "clash", "chain"]
NAMES += ["optimizer", "partitioning"]
HEAVY = ("pyspark", "numba", "pyarrow", "duckdb", "matplotlib", "weft.engine")


def test_every_program_has_its_name() -> None:
    assert list(PROGRAMS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_program_gets_its_arguments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--queries", "1,5", "-x", "--help", "free", "--json", "--", "--last"]
    calls: list[tuple[str, list[str]]] = []

    def imported(module: str) -> SimpleNamespace:
        return SimpleNamespace(main=lambda arguments: calls.append((module, arguments)) or 4)

    monkeypatch.setattr(app, "import_module", imported)
    assert main([name, *given]) == 4
    assert calls == [(PROGRAMS[name][0], given)]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_shows_its_own_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: weft-bench {name} ")


def test_the_help_lists_all_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert re.findall(r"^ {4}(\S+)", said, re.MULTILINE) == NAMES


@pytest.mark.parametrize("given", [[], ["nothing"], ["--nothing"]])
def test_what_is_no_program_is_a_mistake_of_usage(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    assert "usage: weft-bench" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InvalidSetting("no such rate", hint="Give another."), FAILED, "weft-bench: no such rate [invalid_setting]\n"),
        (KeyboardInterrupt(), INTERRUPTED, ""),
    ],
)
def test_an_error_of_weft_is_told_without_a_traceback(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(import_module(PROGRAMS["list"][0]), "main", fail)
    assert main(["list"]) == code
    assert capsys.readouterr().err.startswith(said)


def test_the_arguments_of_the_process_are_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["weft-bench", "list"])
    assert main() == 0
    assert "experiments (weft-bench run EXPERIMENT):" in capsys.readouterr().out


def test_the_help_imports_nothing_heavy() -> None:
    program = "import sys; from weft_bench.app import _parser; _parser().format_help(); print(*sys.modules)"
    environment = {"PYTHONPATH": python_path()}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert [name for name in HEAVY if name in done.stdout.split()] == []
