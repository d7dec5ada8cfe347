"""The command line finds programs by their words."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from weft import cli


@pytest.mark.parametrize("words", cli.PROGRAMS)
def test_every_program_exists_and_gets_its_arguments(words: tuple[str, ...]) -> None:
    assert cli.find_program([*words, "--help"]) == (cli.PROGRAMS[words], ["--help"])
    assert find_spec(cli.PROGRAMS[words]) is not None


@pytest.mark.parametrize("words", [[], ["bench"], ["bench", "nothing"], ["--help"], ["quick"]])
def test_other_words_are_no_program(words: list[str]) -> None:
    assert cli.find_program(words) is None


def test_what_can_be_run_is_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["weft", "brench"])
    assert cli.main() == 2
    said = capsys.readouterr().err
    assert 'no such command: "brench"' in said
    assert "weft bench optimizer" in said
