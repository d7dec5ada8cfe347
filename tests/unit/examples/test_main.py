"""The command line: what is refused before anything starts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from examples.ads.__main__ import main


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seconds", "0"],
        ["--rate", "-1"],
        ["--queries", "x"],
        ["--port", "65536"],
        ["--seconds", "5", "--forever"],
        ["--nonsense"],
    ],
)
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: python -m examples.ads" in capsys.readouterr().err


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    for option in ("--seconds", "--forever", "--rate", "--queries", "--seed", "--port", "--keep"):
        assert option in said


def test_a_folder_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(SystemExit):
        main(["--keep", str(tmp_path)])
    assert "not an empty directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize(("package", "requirement"), [("duckdb", "duckdb"), ("fastapi", "weft-streams[service]")])
def test_a_missing_package_is_named_first(
    package: str, requirement: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("examples.ads.__main__.find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert f'"{package}" is missing' in said
    assert f'pip install "{requirement}"' in said


def test_without_java_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert main(["--keep", str(tmp_path / "kept")]) == 1
    said = capsys.readouterr().err
    assert "there is no bin/java in it" in said
    assert "sudo apt-get install" in said
