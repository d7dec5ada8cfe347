"""Every public definition is used by the engine, the service or the command line, and has a name of its own."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.meta.project import ROOT, SOURCE
from tests.meta.references import Name, definitions, modules, reached

LIST = Path(__file__).parent / "not_connected.txt"
ROOTS = ("weft.engine", "weft.service", "weft.cli")
ADAPTERS = ("weft.cli.", "weft.service.http.routes", "weft.service.http.shapes")
"""Commands, routes and wire shapes are named after the operation or the value that they present."""
SAME_NAME = {
    "main": "the entry point, and what it passes on to",
    "serve": "a command, and what it runs",
    "NewQuery": "a query to create, as the client sends it and as the route receives it",
    "QueryFigures": "figures of a query, as they are observed and as they are sent",
}
"""Names that two definitions may share, and why."""


def listed() -> dict[str, str]:
    lines = (line for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return dict(line.split(" - ", 1) for line in lines)


def is_listed(name: Name) -> bool:
    module, definition = name
    parents = [".".join(module.split(".")[:length]) for length in range(1, module.count(".") + 2)]
    return any(key in listed() for key in (*parents, f"{module}:{definition}"))


def test_every_definition_is_reached_or_listed() -> None:
    used = reached(ROOTS)
    assert sorted(f"{m}:{n}" for m, n in definitions() if (m, n) not in used and not is_listed((m, n))) == []


@pytest.mark.parametrize("entry", listed())
def test_the_list_names_what_is_there_and_not_reached(entry: str) -> None:
    module, _, definition = entry.partition(":")
    known = {(m, n) for m, n in definitions() if m == module or m.startswith(module + ".")}
    names = {(m, n) for m, n in known if not definition or n == definition}
    assert names, "there is no such definition"
    assert not definition or not names & reached(ROOTS), "it is reached, so it need not be listed"


def test_the_planner_page_names_every_module_that_is_not_connected() -> None:
    page = (ROOT / "docs" / "explanation" / "planner.md").read_text(encoding="utf-8")
    packages = [entry for entry in listed() if ":" not in entry]
    assert [name for name in packages if name.removeprefix("weft.").replace(".", "/") not in page] == []


def test_no_two_definitions_have_one_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module, name in definitions():
        if not module.startswith(ADAPTERS) and module != "weft.cli":
            homes[name].append(module)
    assert {name: found for name, found in homes.items() if len(found) > 1 and name not in SAME_NAME} == {}


def test_docs_name_only_files_that_exist_and_are_reached() -> None:
    """Only two pages, which say so, and the decisions may speak of what is not connected."""
    used = {module for module, _ in reached(ROOTS)}
    file = re.compile(r"`(?:src/weft/)?(?P<path>[a-z_]+(?:/[a-z_]+)+\.py)[`:]")
    wrong: list[str] = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for match in file.finditer(page.read_text(encoding="utf-8")):
            path = match["path"]
            if path.split("/")[0] not in {folder.name for folder in SOURCE.iterdir() if folder.is_dir()}:
                continue
            module = "weft." + path.removesuffix(".py").replace("/", ".")
            excused = page.name in ("planner.md", "architecture.md") or page.parent.name == "decisions"
            if module not in modules() or (module not in used and not excused):
                wrong.append(f"{page.relative_to(ROOT)}: {path}")
    assert wrong == []
