"""Exit codes follow from the class of an error, and docs/reference/cli.md says which."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import typer

import weft.errors
from weft.cli.failures import exit_code, reported
from weft.errors import InternalError, QuerySyntaxError, UnknownColumn, WeftError

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
ROW = re.compile(r"^\| (?P<code>\d+) \| [^|]+ \| (?P<errors>[^|]*) \|$", re.MULTILINE)
ERRORS = [
    kind
    for _, kind in inspect.getmembers(weft.errors, inspect.isclass)
    if issubclass(kind, WeftError) and kind.__module__ == weft.errors.__name__
]


def documented() -> dict[str, int]:
    rows = ROW.finditer(PAGE.read_text(encoding="utf-8"))
    return {code: int(row["code"]) for row in rows for code in re.findall(r"`(\w+)`", row["errors"])}


@pytest.mark.parametrize("kind", ERRORS)
def test_every_exit_code_is_documented(kind: type[WeftError]) -> None:
    known = documented()
    code = next(known[each.code] for each in kind.__mro__ if issubclass(each, WeftError) and each.code in known)
    assert exit_code(kind("it is so")) == code


def test_only_errors_that_exist_are_documented() -> None:
    assert documented().keys() <= {kind.code for kind in ERRORS}


@pytest.mark.parametrize(
    ("kind", "code"), [(QuerySyntaxError, 3), (UnknownColumn, 3), (InternalError, 1), (WeftError, 1)]
)
def test_a_class_has_the_code_of_the_class_above_it(kind: type[WeftError], code: int) -> None:
    assert exit_code(kind("it is so")) == code


def test_an_error_is_told_and_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, reported():
        raise UnknownColumn('column "[b]" does not exist', detail="It is not there.", hint="Columns are: a.")
    assert ended.value.exit_code == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        'error: column "[b]" does not exist [unknown_column]',
        "  detail: It is not there.",
        "  hint: Columns are: a.",
    ]


def test_ctrl_c_ends_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, reported(as_json=True):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert capsys.readouterr() == ("", "")


def test_what_nobody_expected_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), reported():
        raise ZeroDivisionError
