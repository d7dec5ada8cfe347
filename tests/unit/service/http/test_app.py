"""The application without Spark: one error shape, tokens, hosts, sizes, and a document that describes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support.engine_sample import rows
from tests.support.service_sample import Here, make_service
from weft.engine.sinks.notes import SinkNote
from weft.plan.changelog import QueryId
from weft.service.http.app import make_app
from weft.service.tenancy.tenants import Tenant, Tenants

ADS, OPS = Tenant("ads", admin=False), Tenant("ops", admin=True)
HEADERS = {"Authorization": "Bearer token-of-ads"}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[tuple[TestClient, Here]]:
    service, host = make_service(tmp_path / "state")
    with TestClient(make_app(service), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client, host


@pytest.fixture
def client(host: tuple[TestClient, Here]) -> TestClient:
    return host[0]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[TestClient]:
    tenants = Tenants({"ads": "token-of-ads", "ops": "token-of-ops"}, [ADS, OPS])
    service, _ = make_service(tmp_path / "state", tenants)
    with TestClient(make_app(service), base_url="http://weft.example", raise_server_exceptions=False) as client:
        yield client


def test_a_query_can_be_created_and_read(host: tuple[TestClient, Here]) -> None:
    client, here = host
    made = client.post("/v1/queries", json={"sql": "SELECT x FROM a", "name": "q"})
    assert made.status_code == 201
    here.batch(a=rows((0, 1, 5)))
    page = client.get("/v1/queries/q/results").json()
    assert (page["rows"], page["cursor"], page["more"]) == ([[5]], "1", False)
    assert client.delete("/v1/queries/q").json()["state"] == "dropped"


def test_a_sink_that_has_failed_is_resumed(host: tuple[TestClient, Here]) -> None:
    client, here = host
    for name in ("q", "without"):
        client.post("/v1/queries", json={"sql": "SELECT x FROM a", "name": name})
    deliveries = here.catalog.deliveries
    deliveries._detached[QueryId("q1")] = SinkNote(QueryId("q1"), 0)
    deliveries.fail(QueryId("q1"), "it is too slow")
    shown = client.get("/v1/queries/q").json()
    assert (shown["sink_state"], shown["sink_error"], shown["sink_gaps"]) == ("failed", "it is too slow", [])
    for number in range(3):
        here.batch(a=rows((number, 1, 5)))
    here.catalog.core.trim_results(2)
    shown = client.post("/v1/queries/q/sink/resume").json()
    assert (shown["sink_state"], shown["sink_error"]) == ("detached", "")
    assert shown["sink_gaps"] == [{"from": 0, "until": 2, "reason": "it is too slow"}]
    refused = client.post("/v1/queries/without/sink/resume")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_setting")


def test_queries_are_listed_page_by_page(host: tuple[TestClient, Here]) -> None:
    client, _ = host
    for number in range(5):
        client.post("/v1/queries", json={"sql": "SELECT x FROM a", "name": f"n{number}"})
        client.delete(f"/v1/queries/n{number}")
    found, after, more = [], 0, True
    while more:
        page = client.get(f"/v1/queries?state=ended&limit=2&after={after}").json()
        found += [query["name"] for query in page["queries"]]
        after, more = page["cursor"], page["more"]
    assert found == ["n0", "n1", "n2", "n3", "n4"]
    latest = client.get("/v1/queries?state=ended&limit=2&latest=true").json()
    assert ([query["name"] for query in latest["queries"]], latest["more"]) == (["n3", "n4"], False)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/queries", {"sql": "SELECT y FROM a"}, 400, "unknown_column"),
        ("POST", "/v1/queries", {"sql": "SELECT"}, 400, "syntax_error"),
        ("POST", "/v1/queries", {"sql": "SELECT x FROM a", "name": "../x"}, 400, "invalid_name"),
        ("POST", "/v1/queries", {"sql": "SELECT x FROM a", "deliver": True}, 400, "invalid_setting"),
        ("POST", "/v1/queries", {"text": "SELECT x FROM a"}, 422, "invalid_request"),
        ("POST", "/v1/queries/many", {"queries": []}, 422, "invalid_request"),
        ("GET", "/v1/queries/none", None, 404, "unknown_query"),
        ("DELETE", "/v1/queries/none", None, 404, "unknown_query"),
        ("POST", "/v1/queries/none/sink/resume", None, 404, "unknown_query"),
        ("GET", "/v1/queries?after=-1", None, 422, "invalid_request"),
        ("GET", "/v1/queries?limit=0", None, 422, "invalid_request"),
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("PUT", "/v1/queries", None, 405, "method_not_allowed"),
        ("GET", "/v1/queries?state=odd", None, 422, "invalid_request"),
    ],
)
def test_errors_have_one_shape(
    client: TestClient, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = client.request(method, path, json=body)
    value = answer.json()
    assert (answer.status_code, value["ok"], value["code"]) == (status, False, code)
    assert set(value) == {"ok", "code", "message", "detail", "hint"}


def test_a_bug_is_an_error_of_the_same_shape(host: tuple[TestClient, Here], monkeypatch: pytest.MonkeyPatch) -> None:
    client, here = host

    def bug() -> None:
        raise RuntimeError("secret inner workings")

    monkeypatch.setattr(here.catalog, "declared_streams", bug)
    answer = client.get("/v1/streams")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text


def test_every_request_but_health_needs_a_token(guarded: TestClient) -> None:
    paths = guarded.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method in methods:
            answer = guarded.request(method, path.format(name="q"))
            assert answer.status_code == (200 if path in ("/health", "/ready") else 401), (method, path)
    assert guarded.get("/v1/queries", headers=HEADERS).status_code == 200


def test_a_refused_token_is_told_how_to_ask(guarded: TestClient) -> None:
    answer = guarded.get("/v1/queries", headers={"Authorization": "Bearer wrong"})
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "wrong" not in answer.text


def test_without_tenants_only_this_machine_may_ask(client: TestClient) -> None:
    assert client.get("/v1/queries", headers={"Host": "localhost:8080"}).status_code == 200
    assert client.get("/v1/queries", headers={"Host": "[::1]:8080"}).status_code == 200
    assert client.get("/v1/queries", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/v1/queries", headers={"Host": "127.0.0.1.evil.example"}).status_code == 403


def test_browsers_are_told_to_be_careful(client: TestClient) -> None:
    headers = client.get("/health").headers
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_what_is_too_large_is_refused(client: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"sql": "'
        for _ in range(6):
            yield b"x" * (1 << 20)

    for content in (b"x" * (5 << 20), pieces()):
        answer = client.post("/v1/validate", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert "larger" in answer.json()["message"]


def test_the_document_describes_every_answer(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert {"Query", "Page", "Plan", "WhatIf", "Status", "Error"} <= set(document["components"]["schemas"])


def test_figures_are_what_prometheus_reads(host: tuple[TestClient, Here]) -> None:
    client, here = host
    client.post("/v1/queries", json={"sql": "SELECT x FROM a", "name": "q"})
    here.batch(a=rows((0, 1, 5)))
    text = client.get("/metrics").text
    assert "weft_up 1.0" in text
    assert "weft_batches_total 1.0" in text
    assert 'weft_query_rows_per_second{query="q",tenant=""}' in text


def test_an_administrator_sets_a_watermark_back(host: tuple[TestClient, Here]) -> None:
    client, here = host
    here.batch(a=rows((100, 1, 5)))
    answer = client.post("/v1/streams/a/watermark", json={"time": "1970-01-01T00:00:09Z"})
    assert (answer.status_code, answer.json()["watermark"]) == (200, "1970-01-01T00:00:09Z")
    for body, status in (({"time": "1970-01-02"}, 400), ({"time": "soon"}, 400), ({}, 422)):
        assert client.post("/v1/streams/a/watermark", json=body).status_code == status


def test_others_set_no_watermark(guarded: TestClient) -> None:
    answer = guarded.post("/v1/streams/a/watermark", json={"time": "1970-01-01"}, headers=HEADERS)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
