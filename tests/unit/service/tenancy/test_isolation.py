"""Tenants see nothing of each other's expressions, and only the streams they were granted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.engine_sample import rows
from tests.support.service_sample import Here, make_service
from weft.errors import BatchFailed
from weft.service.config import ServerSection
from weft.service.health import Standing, State
from weft.service.http.app import make_app
from weft.service.tenancy.tenants import Tenant, Tenants

A = Tenant("one", admin=False, key=b"1")
B = Tenant("two", admin=False, key=b"2")
ONLY_A = Tenant("three", admin=False, streams=frozenset("a"), key=b"3")
OPS = Tenant("ops", admin=True)
TENANTS = Tenants({each.name: f"token-of-{each.name}" for each in (A, B, ONLY_A, OPS)}, (A, B, ONLY_A, OPS))
MARKS = ("4711", "secret-word", "8125")
WINDOW = "[RANGE 10 SECONDS]"
OTHERS = {
    "selection": "SELECT x, s FROM a WHERE x > 4711 AND s = 'secret-word'",
    "join": f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k AND p.j + 4711 = q.j WHERE q.x > 8125",
    "theta": f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k AND p.x + 4711 < q.x",
    "grouped": "SELECT k, SUM(CASE WHEN x = 4711 THEN j END) AS n FROM a [TUMBLE 5 SECONDS] GROUP BY k",
    "by": "SELECT x + 4711 AS g, COUNT(*) AS n FROM a [TUMBLE 5 SECONDS] GROUP BY x + 4711",
}
MINE = {
    "selection": "SELECT x FROM a WHERE x > 3",
    "join": f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k",
    "theta": f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k AND p.x < q.x",
    "grouped": "SELECT k, COUNT(*) AS n FROM a [TUMBLE 5 SECONDS] GROUP BY k",
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[TestClient, Here]]:
    service, host = make_service(tmp_path / "state", TENANTS, server=ServerSection(inputs=(tmp_path / "in",)))
    app = make_app(service)
    with TestClient(app, base_url="http://weft.example", raise_server_exceptions=False) as client:
        yield client, host


@pytest.fixture
def client(made: tuple[TestClient, Here]) -> TestClient:
    return made[0]


def ask(client: TestClient, tenant: Tenant, method: str, path: str, body: Any = None) -> Any:
    return client.request(method, path, json=body, headers={"Authorization": f"Bearer token-of-{tenant.name}"})


def create(client: TestClient, tenant: Tenant, sql: str, name: str) -> None:
    answer = ask(client, tenant, "POST", "/v1/queries", {"sql": sql, "name": name})
    assert answer.status_code == 201, answer.text


def first_event(client: TestClient, tenant: Tenant) -> str:
    service = client.app.state.service  # type: ignore[attr-defined]
    return json.dumps(service.views(tenant).tick(*service.state(tenant), service.queries(tenant)))


def test_nothing_of_others_expressions_is_seen_anywhere(made: tuple[TestClient, Here]) -> None:
    client, host = made
    for name, sql in OTHERS.items():
        create(client, B, sql, name)
    for name, sql in MINE.items():
        create(client, A, sql, name)
    for second in range(3):
        host.batch(a=rows((second, 1, 5, 1, "x")), b=rows((second, 1, 6, 1, "x")))
    admin = ask(client, OPS, "GET", "/v1/plan").text
    assert all(mark in admin for mark in MARKS), "they are there to be seen"
    texts = [ask(client, A, "GET", f"/v1/queries/{name}/explain").text for name in MINE]
    texts += [ask(client, A, "POST", "/v1/what-if", {"sql": sql}).text for sql in MINE.values()]
    texts += [
        ask(client, A, "GET", path).text for path in ("/v1/plan", "/v1/status", "/v1/queries?state=all", "/metrics")
    ]
    texts.append(first_event(client, A))
    for text in texts:
        assert not any(mark in text for mark in MARKS), text
        assert "two." not in text


def test_operators_are_those_of_ones_own_queries(client: TestClient) -> None:
    for name, sql in OTHERS.items():
        create(client, B, sql, name)
    create(client, B, MINE["join"], "same")
    create(client, A, MINE["join"], "mine")
    plan = ask(client, A, "GET", "/v1/plan").json()
    ids = {node["id"] for node in plan["nodes"]}
    assert {node["kind"] for node in plan["nodes"]} == {"stream", "selection", "store", "join", "query"}
    assert all(a in ids and b in ids for a, b in plan["edges"])
    assert all(node["queries"] == ["mine"] for node in plan["nodes"])
    theirs = {node["id"] for node in ask(client, B, "GET", "/v1/plan").json()["nodes"]}
    all_ = {node["id"] for node in ask(client, OPS, "GET", "/v1/plan").json()["nodes"]}
    hidden = {each for each in ids if each.startswith(("store:", "join:"))}
    assert hidden
    assert not hidden & (theirs | all_), "an id is a digest of a text, which could be guessed"
    stores = [node for node in plan["nodes"] if node["kind"] == "store"]
    assert stores[0]["others"] >= 1, "that others share what columns alone say is told"


def test_guesses_are_not_confirmed(client: TestClient) -> None:
    create(client, B, OTHERS["by"], "by")
    right = ask(client, A, "POST", "/v1/what-if", {"sql": OTHERS["by"]}).json()
    wrong = ask(client, A, "POST", "/v1/what-if", {"sql": OTHERS["by"].replace("4711", "4712")}).json()

    def told(found: Any) -> Any:
        return [{**each, "id": "", "title": "", "detail": ""} for each in found["operators"]]

    assert told(right) == told(wrong)
    create(client, A, OTHERS["by"], "guess")
    for node in ask(client, A, "GET", "/v1/plan").json()["nodes"]:
        if node["kind"] in ("store", "aggregate"):
            assert node["others"] == 0
            assert node["rows_per_second"] is None


def test_a_stream_without_a_grant_does_not_exist(made: tuple[TestClient, Here]) -> None:
    client, host = made
    host.batch(a=rows((0, 1, 5)), b=rows((0, 1, 5)))
    missing = ask(client, ONLY_A, "POST", "/v1/queries", {"sql": "SELECT x FROM nothing"}).json()
    for path in ("/v1/queries", "/v1/what-if"):
        answer = ask(client, ONLY_A, "POST", path, {"sql": "SELECT x FROM b"})
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_stream")
        assert answer.json()["hint"] == missing["hint"]
    many = {"queries": [{"sql": "SELECT x FROM a"}, {"sql": "SELECT x FROM b"}]}
    assert ask(client, ONLY_A, "POST", "/v1/queries/many", many).json()["code"] == "unknown_stream"
    assert ask(client, ONLY_A, "POST", "/v1/validate", {"sql": "SELECT x FROM b"}).json()["code"] == "unknown_stream"
    assert [each["name"] for each in ask(client, ONLY_A, "GET", "/v1/streams").json()["streams"]] == ["a"]
    assert "stream:b" not in ask(client, ONLY_A, "GET", "/v1/plan").text
    assert set(json.loads(first_event(client, ONLY_A))["streams"]) == {"a"}
    assert 'stream="b"' not in ask(client, ONLY_A, "GET", "/metrics").text
    assert 'stream="b"' in ask(client, A, "GET", "/metrics").text
    create(client, ONLY_A, "SELECT x FROM a", "granted")


def test_rows_are_not_read_without_a_grant(made: tuple[TestClient, Here], monkeypatch: pytest.MonkeyPatch) -> None:
    client, host = made
    create(client, A, "SELECT x FROM b", "before")
    host.batch(b=rows((0, 1, 5)))
    monkeypatch.setattr(Tenant, "may_read", lambda self, stream: stream == "a")
    for what in ("results", "follow"):
        assert ask(client, A, "GET", f"/v1/queries/before/{what}").json()["code"] == "unknown_stream"
    assert ask(client, A, "DELETE", "/v1/queries/before").status_code == 200


def test_reasons_are_for_administrators(made: tuple[TestClient, Here]) -> None:
    client, host = made
    error = BatchFailed('file "/data/of/two/x" is bad', detail="4711")
    host.standing = Standing(State.FAILING, error, failures=3, next_try=0.0)
    open_ = client.get("/ready")
    assert open_.status_code == 503
    assert (open_.json()["state"], open_.json()["failures"]) == ("failing", 3)
    for text in (open_.text, ask(client, A, "GET", "/v1/status").text, ask(client, A, "GET", "/ready").text):
        assert "/data/of/two" not in text
    assert "/data/of/two" in ask(client, OPS, "GET", "/v1/status").text
    assert "/data/of/two" in ask(client, OPS, "GET", "/ready").text


def test_streams_over_http_read_what_is_allowed(made: tuple[TestClient, Here], tmp_path: Path) -> None:
    client, host = made
    spec = {"name": "new", "path": "/etc", "time": "ts", "schema": "ts TIMESTAMP"}
    assert ask(client, A, "POST", "/v1/streams", spec).status_code == 403
    refused = ask(client, OPS, "POST", "/v1/streams", spec)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert host.added == []
    assert ask(client, OPS, "POST", "/v1/streams", {**spec, "path": str(tmp_path / "in" / "x")}).status_code == 201
    assert [each.name for each in host.added] == ["new"]


def test_streams_are_dropped_by_administrators(made: tuple[TestClient, Here]) -> None:
    client, host = made
    assert ask(client, A, "DELETE", "/v1/streams/a").status_code == 403
    missing = ask(client, OPS, "DELETE", "/v1/streams/none")
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_stream")
    assert ask(client, OPS, "DELETE", "/v1/streams/a").json()["name"] == "a"
    assert host.dropped == ["a"]
