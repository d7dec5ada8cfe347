"""The architecture page and the glossary name files, and the files exist."""

from __future__ import annotations

import re

import pytest

from tests.meta.project import ROOT, SOURCE

PAGES = ("architecture", "glossary", "planner")
FILE = re.compile(r"`(?P<name>[a-z_]+(?:/[a-z_]+)*\.py)[`:]")
ITEM = re.compile(r"^(?:\d+\.|-) ", re.MULTILINE)


def text_of(page: str) -> str:
    return (ROOT / "docs" / "explanation" / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page: str) -> None:
    names = {match["name"] for match in FILE.finditer(text_of(page))}
    assert names
    assert sorted(name for name in names if not (SOURCE / name).is_file()) == []


def test_every_step_names_a_file() -> None:
    """Whoever follows a query, a batch or a row can open the file of each step."""
    lists = re.split(r"^## ", text_of("architecture"), flags=re.MULTILINE)
    steps = [step for section in lists for step in ITEM.split(section)[1:]]
    assert len(steps) > 30
    assert [step for step in steps if not FILE.search(step.split("\n\n")[0])] == []


def test_every_word_of_the_glossary_names_one_place() -> None:
    words, _, _ = text_of("glossary").partition("## Words that are not used")
    rows = [line for line in words.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if len(FILE.findall(row)) != 1] == []


def test_every_folder_is_on_the_page() -> None:
    """A new package has a place in the table of layers."""
    page = text_of("architecture")
    packages = {path.parent.relative_to(SOURCE).parts[0] for path in SOURCE.glob("*/__init__.py")}
    assert sorted(name for name in packages if f"`{name}/`" not in page) == []
