"""The `weft` command as users type it, against a real service."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from tests.service.conftest import Client, Service

pytestmark = pytest.mark.spark


@dataclass(frozen=True, slots=True)
class Weft:
    """The command, on a service."""

    address: str

    def __call__(self, *words: str, exits: int = 0, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run it; fails unless it exits as it should."""
        done = subprocess.run(
            [sys.executable, "-m", "weft", "--server", self.address, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == exits, f"{words} exits with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *words: str, exits: int = 0) -> Any:
        """What it answers with --json; an error's answer is on stderr."""
        done = self(*words, "--json", exits=exits)
        return json.loads(done.stderr if exits else done.stdout)


@pytest.fixture
def weft(service: Service) -> Weft:
    """The command on the service that tests share."""
    return Weft(service.address)


def test_a_query_lives_and_ends(service: Service, weft: Weft) -> None:
    made = weft.json("query", "create", "SELECT v FROM a WHERE k = 301", "--name", "typed")
    assert made["name"] == "typed"
    weft("query", "create", "-", "--name", "piped", text="SELECT v FROM a WHERE k = 301 AND v > 1")
    service.put("a", (301, 1), (301, 2))
    tailed = weft("query", "tail", "typed", "--from", "start", "--rows", "2", "--json").stdout.splitlines()
    assert sorted(json.loads(line)["v"] for line in tailed) == [1, 2]
    assert [
        json.loads(line)
        for line in weft("query", "tail", "piped", "--from", "start", "--rows", "1", "--json").stdout.splitlines()
    ] == [{"v": 2}]
    assert sorted(weft.json("query", "results", "typed")["rows"]) == [[1], [2]]
    assert {"typed", "piped"} <= {each["name"] for each in weft.json("query", "list")["queries"]}
    assert "typed" in weft("query", "list").stdout
    assert weft.json("query", "show", "typed")["state"] == "live"
    assert "piped" in weft("query", "explain", "typed").stdout
    weft("query", "drop", "typed", "piped")
    assert weft.json("query", "show", "typed")["state"] == "dropped"
    assert "typed" not in {each["name"] for each in weft.json("query", "list")["queries"]}
    assert "typed" in {each["name"] for each in weft.json("query", "list", "--all")["queries"]}


def test_what_it_would_share_is_told_before(client: Client, weft: Weft) -> None:
    client.create("SELECT v FROM a WHERE k = 311", "there")
    asked = weft.json("query", "explain", "--sql", "SELECT v FROM a WHERE k = 312")
    assert not any(each["new"] for each in asked["operators"])
    assert "there" in weft("plan").stdout


def test_streams_are_added_and_listed(service: Service, weft: Weft) -> None:
    folder = service.folder / "in" / "typed"
    schema = "ts TIMESTAMP, k BIGINT, v BIGINT"
    weft("stream", "add", "typed", "--path", str(folder), "--schema", schema, "--time", "ts")
    assert "typed" in {each["name"] for each in weft.json("stream", "list")["streams"]}
    assert "typed" in weft("stream", "list").stdout
    weft("query", "create", "SELECT v FROM typed", "--name", "of-typed")
    service.put("typed", (1, 5))
    assert json.loads(weft("query", "tail", "of-typed", "--from", "start", "--rows", "1", "--json").stdout) == {"v": 5}


def test_a_look_at_the_top(client: Client, weft: Weft) -> None:
    client.create("SELECT v FROM a WHERE k = 321", "watched")
    assert "watched" in weft("top").stdout
    assert weft.json("top")["status"]["state"] == "running"


def test_exit_codes_tell_what_went_wrong(weft: Weft) -> None:
    assert weft.json("query", "create", "SELECT nothing FROM a", exits=3)["code"] == "unknown_column"
    assert weft.json("query", "show", "nobody", exits=4)["code"] == "unknown_query"
    weft("query", "create", "SELECT v FROM a", "--name", "once")
    assert weft.json("query", "create", "SELECT v FROM a", "--name", "once", exits=5)["code"] == "duplicate_query"
    weft("query", "create", exits=2)
    assert Weft("http://127.0.0.1:9").json("query", "list", exits=8)["code"] == "service_unreachable"


def test_a_path_leads_to_the_service_that_has_it(service: Service, client: Client) -> None:
    client.create("SELECT v FROM a WHERE k = 331", "by-path")
    command = [sys.executable, "-m", "weft", "--path", str(service.folder / "state"), "query", "list", "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "by-path" in {each["name"] for each in json.loads(answer)["queries"]}
