from __future__ import annotations

from inspect import signature
from pathlib import Path

import pytest

from weft_bench.workloads.catalogue import WORKLOADS, workload
from weft_bench.workloads.model import Dialect
from weft_bench.workloads.nexmark_queries import DIFFERENT, MISSING

PAGE = (Path(__file__).parents[4] / "docs" / "explanation" / "workloads.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_page_has_every_workload_with_its_parameters(name: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    for parameter in signature(WORKLOADS[name]).parameters:
        assert f"`{parameter}`" in row or parameter in ("seed", "observed")


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_page_shows_the_first_query(name: str) -> None:
    chosen = workload(name, **({"scale": 0.001} if name == "tpch" else {}))
    assert f"| `{name}` | `{chosen.queries(1)[0].texts[Dialect.WEFT]}` |" in PAGE


def test_the_page_says_what_becomes_of_nexmarks_queries() -> None:
    for name, why in MISSING.items():
        assert f"| {name} | not: {why} |" in PAGE
    for name, what in DIFFERENT.items():
        assert f"| {name} | {what} |" in PAGE
