"""The table of contents of the documentation names every page, and only pages that exist."""

from __future__ import annotations

import re

from tests.meta.project import ROOT

PAGE = re.compile(r"(?P<page>[\w/-]+\.md)$", re.MULTILINE)
APART = {"STATUS.md"}
"""Notes for those who work on weft; the site does not list them."""


def test_the_table_of_contents_is_complete() -> None:
    _, contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")
    listed = {match["page"] for match in PAGE.finditer(contents)}
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md") if path.name != "report.md"}
    assert listed == pages - APART
