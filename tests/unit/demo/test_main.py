"""The command line: what is refused before anything starts, and Ctrl-C."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from weft.demo.__main__ import main
from weft.demo.stop import StopSignal


@pytest.mark.parametrize(
    "arguments",
    [["--seconds", "0"], ["--rate", "-1"], ["--queries", "x"], ["--seconds", "5", "--forever"], ["--nonsense"]],
)
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: python -m weft.demo" in capsys.readouterr().err


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    for option in ("--seconds", "--forever", "--rate", "--queries", "--seed", "--keep"):
        assert option in said


def test_a_folder_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(SystemExit):
        main(["--keep", str(tmp_path)])
    assert "not an empty directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_missing_duckdb_is_said_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("weft.demo.__main__.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        main([])
    assert 'pip install "weft[demo]"' in capsys.readouterr().err


def test_without_java_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert main(["--keep", str(tmp_path / "kept")]) == 1
    said = capsys.readouterr().err
    assert "there is no bin/java in it" in said
    assert "sudo apt-get install" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_the_second_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    stop = StopSignal()
    try:
        assert not stop.wait(0)
        os.kill(os.getpid(), number)
        assert stop.wait(5)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    finally:
        stop.restore()
    assert signal.getsignal(number) == before
