"""Code and documentation use the words of the glossary, and not the words that it replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.meta.project import ROOT, SOURCE, python_files

GLOSSARY = ROOT / "docs" / "explanation" / "glossary.md"
QUOTING = ("decisions", "benchmarks")
"""Folders with pages that quote papers, or what was measured in their words."""
EXCUSED = {"glossary.md", "benchmarks.md"}
TUPLES_OF_PYTHON = re.compile(r"named tuple|tuples as lists")


def replaced_words() -> list[str]:
    section = GLOSSARY.read_text(encoding="utf-8").partition("## Words that are not used")[2]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")][1:]
    return [word.strip() for row in rows for word in row.split(",")]


def prose(text: str) -> str:
    """Return a text without code."""
    return re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)


def docstrings() -> Iterator[tuple[str, str]]:
    for path in python_files(SOURCE):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node.value.value


def pages() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if path.name not in EXCUSED and not set(path.parts) & set(QUOTING):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_words_that_the_glossary_replaces_are_not_used() -> None:
    words = replaced_words()
    assert len(words) >= 5
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})s?\b", re.IGNORECASE)
    found = [
        f"{place}: {match[0]}"
        for place, text in (*docstrings(), *pages())
        for match in pattern.finditer(TUPLES_OF_PYTHON.sub("", prose(text)))
    ]
    assert found == []
