"""The README: two commands do everything, CI runs one of them, and the example is Python."""

from __future__ import annotations

import ast
import re

from tests.meta.project import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)#]+)(?:#[^)]*)?\)")


def blocks(*languages: str) -> list[str]:
    return [block["text"] for block in BLOCK.finditer(README) if block["language"] in languages]


def test_exactly_two_commands() -> None:
    lines = [
        line.split("#")[0].strip()
        for text in blocks("sh", "bash", "shell", "console", "")
        for line in text.splitlines()
    ]
    assert [line for line in lines if line] == ["make demo", "make test"]


def test_no_third_command_in_the_text() -> None:
    prose = BLOCK.sub("", README)
    assert set(re.findall(r"`(make [^`]*|pip [^`]*)`", prose)) <= {
        "make demo",
        "make test",
        'make demo ARGS="--forever"',
    }


def test_ci_runs_the_readme_test_command() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    commands = [line.removeprefix("exec ") for line in script.read_text(encoding="utf-8").splitlines()]
    assert next(line for line in commands if line.startswith("make ")) == "make test"


def test_the_example_is_python() -> None:
    examples = blocks("python")
    assert examples
    for example in examples:
        ast.parse(example)


def test_links_lead_somewhere() -> None:
    local = [target for target in LINK.findall(README) if "://" not in target]
    assert [target for target in local if not (ROOT / target).exists()] == []
