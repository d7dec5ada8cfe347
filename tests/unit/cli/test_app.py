"""The commands there are: fast to start, and complete in the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from tests.support.cli_fake import FakeBackend, query, run
from weft import cli
from weft.errors import InvalidSetting

Backend = Callable[..., FakeBackend]
HEAVY = ("pyspark", "numba", "pandas", "pyarrow", "sqlglot", "fastapi", "weft.engine")
WITHOUT_NETWORK = """
import sys, httpx2
from weft.cli.app import app
httpx2.Client.request = lambda *_, **__: httpx2.Response(200, json={"queries": []})
try:
    app(sys.argv[1:], prog_name="weft")
finally:
    sys.stderr.write("loaded: " + " ".join(sorted(sys.modules)))
"""


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [("--help",), ("query", "list", "--json"), ("query", "create", "--help")])
def test_nothing_heavy_is_loaded_before_it_is_needed(words: tuple[str, ...]) -> None:
    done = python(WITHOUT_NETWORK, *words)
    assert done.returncode == 0, done.stderr
    loaded = done.stderr.partition("loaded: ")[2].split()
    assert [name for name in HEAVY if name in loaded] == []


def test_the_version() -> None:
    assert run("--version").stdout == f"weft {weft.__version__}\n"


def test_every_command_is_in_the_help() -> None:
    said = run("--help").stdout
    for word in ("query", "stream", "top", "plan", "serve", "--install-completion", "--json"):
        assert word in said


@pytest.mark.parametrize("words", [(), ("query",), ("nothing",), ("query", "nothing")])
def test_what_is_no_command_is_a_mistake_of_usage(words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2


def test_main_ends_with_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["weft", "nothing"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2


# ---- the plan


def test_the_plan_is_text_or_json(backend: Backend) -> None:
    plan = {"nodes": [], "edges": [], "text": "shared plan: 0 queries\n  [nothing]"}
    backend(plan=plan)
    assert run("plan").stdout == plan["text"] + "\n"  # type: ignore[operator]
    assert json.loads(run("plan", "--json").stdout) == plan


# ---- the service


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def serve(config: Path, *, host: str | None = None, port: int | None = None) -> int:
        calls.append((config, host, port))
        if config.name == "bad.toml":
            raise InvalidSetting("configuration is no TOML")
        return 3

    monkeypatch.setattr("weft.cli.app.import_module", lambda _: SimpleNamespace(serve=serve))
    return calls


def test_the_service_is_run_with_its_configuration(served: list[Any]) -> None:
    assert run("serve", "--config", "weft.toml").exit_code == 3
    assert run("serve", "--config", "weft.toml", "--host", "::1", "--port", "0").exit_code == 3
    assert served == [(Path("weft.toml"), None, None), (Path("weft.toml"), "::1", 0)]


def test_a_wrong_configuration_is_told(served: list[Any]) -> None:
    done = run("--json", "serve", "--config", "bad.toml")
    assert (done.exit_code, json.loads(done.stderr)["code"]) == (3, "invalid_setting")


def test_a_service_needs_its_configuration(served: list[Any]) -> None:
    assert run("serve").exit_code == 2
    assert served == []


# ---- completion


def complete(text: str) -> list[str]:
    done = run(_WEFT_COMPLETE="complete_bash", COMP_WORDS=text, COMP_CWORD=str(text.count(" ")))
    return done.stdout.split()


def test_the_shell_completes_commands_and_options(backend: Backend) -> None:
    assert complete("weft que") == ["query"]
    assert complete("weft query cr") == ["create"]
    assert "--json" in complete("weft query list --")


def test_the_shell_completes_names_of_queries(backend: Backend) -> None:
    fake = backend(queries=[query("big"), query("bigger"), query("small")])
    assert complete("weft --server http://a query show bi") == ["big", "bigger"]
    assert fake.options is not None
    assert fake.options.server == "http://a"


def test_completion_is_silent_about_errors(backend: Backend) -> None:
    backend(queries=InvalidSetting("no"))
    assert complete("weft query show bi") == []
