"""Pages of docs/reference as the meta tests read them: sections, and tables whose rows begin with code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.meta.project import ROOT


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")


def sections(text: str, level: int) -> dict[str, str]:
    """What stands below each heading of a level, by the heading without backticks."""
    found: dict[str, list[str]] = {}
    title, in_code = "", False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        heading = None if in_code else re.fullmatch(r"(#+) (.+)", line)
        if heading is not None and len(heading[1]) <= level:
            title = heading[2].replace("`", "") if len(heading[1]) == level else ""
            assert title not in found, f"two sections are called {title}"
            if title:
                found[title] = []
        elif title:
            found[title].append(line)
    return {each: "\n".join(lines) for each, lines in found.items()}


def rows(text: str) -> Iterator[list[str]]:
    """The cells of table rows that begin with code."""
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def named(text: str) -> list[str]:
    """The code that table rows begin with."""
    return [cells[0].strip("`") for cells in rows(text)]


def numbered(text: str) -> dict[str, int]:
    """Codes of errors in the third column of a table, with the number in the first."""
    found = re.finditer(r"^\| (?P<number>\d+) \| [^|]+ \| (?P<codes>[^|]*) \|$", text, re.MULTILINE)
    return {code: int(row["number"]) for row in found for code in re.findall(r"`(\w+)`", row["codes"])}
