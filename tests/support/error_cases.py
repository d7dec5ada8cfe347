"""Queries that binding refuses: `errors/*.txt` hold one "name: SQL" a line, then `----`, then the expected errors.

`{…}` in the SQL is a Python expression: some queries are long, and some have characters that no editor shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weft.errors import QueryError

PATHS = sorted(Path(__file__).parents[1].glob("golden/errors/*.txt"))
RULE = "----\n"
_PYTHON = re.compile(r"\{(.*?)\}")


@dataclass(frozen=True, slots=True)
class BadQuery:
    """A query with the code of the error that it has to raise; the code is empty if no error is expected yet."""

    name: str
    sql: str
    code: str


def read_cases(path: Path) -> list[BadQuery]:
    """Return the queries of a file."""
    queries, _, expected = path.read_text(encoding="utf-8").partition(RULE)
    lines = (line.partition(":") for line in expected.split("\n") if not line.startswith(" "))
    codes = {name: code.strip() for name, _, code in lines}
    # Not `splitlines`, which also splits at characters that a query may contain.
    named = (line.partition(":") for line in queries.strip().split("\n"))
    return [BadQuery(name, _evaluated(sql.strip()), codes.get(name, "")) for name, _, sql in named]


def error_text(name: str, error: QueryError) -> str:
    """Return the expected part of one query: code, message, and detail and hint if the error has them."""
    parts = {"message": error.message, "detail": error.detail, "hint": error.hint}
    lines = [f"  {part}: {text}" for part, text in parts.items() if text]
    return "\n".join([f"{name}: {error.code}", *lines]) + "\n"


def _evaluated(sql: str) -> str:
    return _PYTHON.sub(lambda match: str(eval(match[1])), sql)
