"""The configuration: warnings are errors, what is pinned is installed, no trace of the machine it was made on."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.meta.project import ROOT, project_files, pyproject

PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[0-9][0-9A-Za-z.+]*)$")

# Put together from halves, so that this file does not hold what it looks for.
FORBIDDEN = {
    "a package registry": (
        r"pypi" r"\.org",
        r"python" r"hosted\.org",
        r"maven" r"\.(apache\.)?org",
        r"anaconda" r"\.(org|com)",
        r"\b(artifact" r"ory|nex" r"us)\b",
        r"(index|extra)[-_]" r"url",
        r"find[-_]" r"links",
        r"trusted[-_]" r"host",
    ),
    "a path of one machine": (
        r"(?<![\w.])/(wo" r"rk|ro" r"ot|home/\w+|Users/\w+)/",
        r"/opt/" r"wheels",
        r"[A-Z]:\\Us" r"ers",
    ),
}  # fmt: skip


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    matches = {line: PIN.match(line) for line in lines if line and not line.startswith("#")}
    assert [line for line, match in matches.items() if match is None] == [], "every line of the lock is an exact pin"
    return {canonicalize_name(match["name"]): match["version"] for match in matches.values() if match}


def test_warnings_are_errors() -> None:
    filters = pyproject()["tool"]["pytest"]["ini_options"]["filterwarnings"]
    assert filters[0] == "error"
    for entry in filters[1:]:
        action, message, category, module = (entry.split(":") + [""] * 4)[:4]
        assert action == "ignore"
        assert category, f"{entry!r} ignores every category"
        assert message or module, f"{entry!r} ignores more than one known warning"


def test_an_expected_failure_that_passes_fails() -> None:
    assert pyproject()["tool"]["pytest"]["ini_options"]["xfail_strict"] is True


def test_types_are_strict() -> None:
    assert pyproject()["tool"]["mypy"]["strict"] is True
    loosened = [override for override in pyproject()["tool"]["mypy"]["overrides"] if "ignore_errors" in override]
    assert loosened == []


def test_the_lock_meets_the_ranges() -> None:
    project = pyproject()["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    others = [each for each in (*project["dependencies"], *extras) if not each.startswith(project["name"])]
    wanted = [*others, *pyproject()["build-system"]["requires"]]
    locked = pins()
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


def test_the_lock_is_what_runs() -> None:
    locked = pins()
    assert {name: version(name) for name in locked} == locked


def test_no_trace_of_the_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {what}: {match[0]}"
        for path in project_files()
        for number, line in enumerate(_text(path).splitlines(), start=1)
        for what, patterns in FORBIDDEN.items()
        for pattern in patterns
        if (match := re.search(pattern, line))
    ]
    assert found == []


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


def test_contributing_names_only_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    assert named <= targets


def test_scripts_can_be_run() -> None:
    scripts = [*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"]
    assert [path.name for path in scripts if not path.stat().st_mode & 0o111] == []
