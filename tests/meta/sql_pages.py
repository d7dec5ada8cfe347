"""The SQL pages of the reference as their tests read them: sections, tables, code blocks, streams of the examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

from tests.meta.project import ROOT
from weft.plan.stream import FrameSource, Stream
from weft.sql import parse_schema

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"`([^`]+)`")


def sections(name: str) -> dict[str, str]:
    """The text under each heading of the second level of a reference page."""
    parts = _SECTION.split((ROOT / "docs" / "reference" / name).read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def prose(text: str) -> str:
    """The text with single blanks instead of line ends."""
    return " ".join(text.split())


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of one language."""
    return [block["text"] for block in _BLOCK.finditer(text) if block["language"] == language]


def rows(text: str, heading: str) -> list[list[str]]:
    """The rows of all tables whose first column has this heading, without the heading."""
    return [row for table in _tables(text) if table[0][0] == heading for row in table[2:]]


def codes(cell: str) -> list[str]:
    """The texts in backquotes."""
    return [code.replace("\\|", "|") for code in _CODE.findall(cell)]


def stream(name: str, schema: str, time: str = "ts") -> Stream:
    """A stream that is only bound against."""
    return Stream(name, parse_schema(schema), time, timedelta(seconds=5), None, FrameSource())


def example_streams() -> dict[str, Stream]:
    """The streams that the SQL reference declares for its examples."""
    declared = [[codes(cell)[0] for cell in row] for row in rows(sections("sql.md")["Example streams"], "Stream")]
    return {name: stream(name, schema, time) for name, schema, time in declared}


def _tables(text: str) -> Iterator[list[list[str]]]:
    """Each table as rows of cells; the first row is the heading, the second the line below it."""
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append([cell.strip() for cell in _CELL.split(line.strip())[1:-1]])
        elif table:
            yield table
            table = []
