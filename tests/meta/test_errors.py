"""Every error a user can see is in docs/reference/errors.md, and nothing else is."""

from __future__ import annotations

import inspect
import re

import weft.errors
from tests.meta.project import ROOT
from weft.errors import WeftError

PAGE = ROOT / "docs" / "reference" / "errors.md"
ROW = re.compile(
    r"^\| `(?P<code>\w+)` \| `(?P<name>\w+)` \| (?P<meaning>[^|]+) \| (?P<what_to_do>[^|]+) \|$", re.MULTILINE
)


def error_classes() -> list[type[WeftError]]:
    classes = [value for _, value in inspect.getmembers(weft.errors, inspect.isclass)]
    return [value for value in classes if value.__module__ == weft.errors.__name__]


def test_every_error_is_documented() -> None:
    documented = {row["name"]: row["code"] for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    assert documented == {error.__name__: error.code for error in error_classes()}


def test_every_row_of_the_page_is_read() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) == len(error_classes())


def test_codes_are_distinct_and_stable_in_form() -> None:
    codes = [error.code for error in error_classes()]
    assert len(codes) == len(set(codes))
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(_[a-z]+)*", code)] == []


def test_one_tree() -> None:
    assert [error for error in error_classes() if not issubclass(error, WeftError)] == []


def test_every_class_defines_its_own_code() -> None:
    assert [error.__name__ for error in error_classes() if "code" not in vars(error)] == []


def test_every_class_says_what_it_means() -> None:
    assert [error.__name__ for error in error_classes() if not inspect.getdoc(error)] == []
