"""Bound queries as text: `bind/*.txt` hold queries, one "name: SQL" a line, then `----`, then the bound queries.

`make golden-update` rewrites the expected part; read what changed.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.golden.bound_text import bound_text
from tests.support.engine_sample import STREAMS
from weft.sql import bind

CASES = sorted(Path(__file__).parent.glob("bind/*.txt"))
RULE = "----\n"


def named_queries(text: str) -> list[tuple[str, str]]:
    """Return the name and the SQL of each "name: SQL" line."""
    lines = (line.partition(": ") for line in text.strip().splitlines())
    return [(name, sql) for name, _, sql in lines]


def bind_all(text: str) -> str:
    """Return the bound queries of some "name: SQL" lines, each below its name."""
    blocks = [f"{name}\n{indent(bound_text(bind(sql, STREAMS)), '  ')}\n" for name, sql in named_queries(text)]
    return "\n".join(blocks)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_bind(path: Path, request: pytest.FixtureRequest) -> None:
    queries, _, expected = path.read_text(encoding="utf-8").partition(RULE)
    bound = bind_all(queries)
    if request.config.getoption("--update"):
        path.write_text(queries + RULE + bound, encoding="utf-8")
    else:
        assert bound == expected, "run `make golden-update` if the change is meant"


def test_there_are_cases() -> None:
    queries = [named_queries(path.read_text(encoding="utf-8").partition(RULE)[0]) for path in CASES]
    assert len(CASES) >= 10
    assert sum(map(len, queries)) >= 60


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_names_are_distinct(path: Path) -> None:
    names = [name for name, _ in named_queries(path.read_text(encoding="utf-8").partition(RULE)[0])]
    assert len(set(names)) == len(names)
