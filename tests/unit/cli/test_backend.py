"""Where commands work: a service or a path, by options and environment; tokens are never on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.support.cli_fake import FakeBackend, run
from weft.cli.backend import DEFAULT_SERVER, Options, open_backend, read_token, served_at
from weft.cli.local import Local
from weft.errors import InvalidSetting, StateLocked
from weft.service.client import Client
from weft.storage.directory import Directory

Backend = Callable[..., FakeBackend]
STATE = Path("state")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A path that an engine is working on."""
    directory = Directory.open(tmp_path / "state")
    yield directory.root
    directory.close()


@pytest.mark.parametrize(
    ("given", "environment", "server", "path"),
    [
        (Options(), {}, DEFAULT_SERVER, None),
        (Options(server="http://a"), {}, "http://a", None),
        (Options(path=STATE), {}, None, STATE),
        (Options(), {"WEFT_SERVER": "http://a"}, "http://a", None),
        (Options(), {"WEFT_PATH": "state"}, None, STATE),
        (Options(), {"WEFT_PATH": "", "WEFT_SERVER": ""}, DEFAULT_SERVER, None),
        (Options(path=STATE), {"WEFT_SERVER": "http://a"}, None, STATE),
        (Options(server="http://a"), {"WEFT_PATH": "state"}, "http://a", None),
    ],
)
def test_options_go_before_the_environment(
    given: Options, environment: dict[str, str], server: str | None, path: Path | None
) -> None:
    resolved = given.resolved(environment)
    assert (resolved.server, resolved.path) == (server, path)


@pytest.mark.parametrize(
    ("given", "environment"),
    [
        (Options(server="http://a", path=STATE), {}),
        (Options(), {"WEFT_SERVER": "http://a", "WEFT_PATH": "state"}),
    ],
)
def test_a_server_and_a_path_are_one_too_many(given: Options, environment: dict[str, str]) -> None:
    with pytest.raises(typer.BadParameter, match="which one is meant"):
        given.resolved(environment)


@pytest.mark.parametrize(
    "words",
    [
        ("--server", "http://a", "--token-file", "t", "--json", "query", "list"),
        ("query", "list", "--server", "http://a", "--token-file", "t", "--json"),
        ("--server", "http://b", "query", "list", "--server", "http://a", "--token-file", "t", "--json"),
    ],
)
def test_options_of_all_commands_stand_before_or_after(backend: Backend, words: tuple[str, ...]) -> None:
    fake = backend(queries=[])
    assert run(*words).exit_code == 0
    assert fake.options == Options(server="http://a", token_file=Path("t"), json=True)


def test_both_at_once_are_a_mistake_of_usage() -> None:
    assert run("--server", "http://a", "query", "list", "--path", "state").exit_code == 2


# ---- tokens


def test_a_token_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    environment = {"WEFT_TOKEN": "from-the-environment"}
    assert read_token(Options(), {}) == ""
    assert read_token(Options(), environment) == "from-the-environment"
    assert read_token(Options(token_file=tmp_path / "token"), environment) == "from-a-file"


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="no-token"):
        read_token(Options(token_file=tmp_path / "no-token"), {})


# ---- what is opened


def test_a_server_is_a_client() -> None:
    found: Any = open_backend(Options(server="http://127.0.0.1:1/"))
    assert isinstance(found, Client)
    assert found.server == "http://127.0.0.1:1"
    found.close()


def test_a_path_is_opened_here(tmp_path: Path) -> None:
    Directory.open(tmp_path / "state").close()
    found = open_backend(Options(path=tmp_path / "state"))
    assert isinstance(found, Local)
    found.close()
    Directory.open(tmp_path / "state").close()


def test_a_path_with_a_service_is_reached_through_it(locked: Path) -> None:
    (locked / "service.json").write_text(json.dumps({"address": "http://127.0.0.1:9999"}))
    found: Any = open_backend(Options(path=locked))
    assert isinstance(found, Client)
    assert found.server == "http://127.0.0.1:9999"
    found.close()


def test_a_path_with_an_engine_but_no_service_is_refused(locked: Path) -> None:
    with pytest.raises(StateLocked, match="it has no service to talk to") as caught:
        open_backend(Options(path=locked))
    assert "held by process" in caught.value.detail
    assert run("--path", str(locked), "query", "list").exit_code == 8


@pytest.mark.parametrize("content", [None, "", "[]", "{}", "no json"])
def test_an_address_that_cannot_be_read_is_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "service.json").write_text(content)
    assert served_at(tmp_path) is None
