"""Requests that are wrong, thousands of them, made from the OpenAPI document: none makes the service fail."""

from __future__ import annotations

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from tests.service.conftest import Client, Service

pytestmark = pytest.mark.spark


def test_no_request_makes_a_server_error(service: Service, client: Client) -> None:
    document = client.get("/openapi.json")
    schema = schemathesis.openapi.from_dict(document)
    failures: list[str] = []
    for operation in (each.ok() for each in schema.get_all_operations()):
        if operation.path.endswith(("/follow", "/events")):
            continue  # they do not end

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def check(case: schemathesis.Case) -> None:
            answer = case.call(base_url=service.address)
            if answer.status_code >= 500:
                failures.append(f"{case.method} {case.path}: {answer.status_code} {answer.text[:300]}")
            if answer.status_code >= 400:
                body = answer.json()
                assert body["ok"] is False
                assert body["code"]

        given(case=operation.as_strategy())(check)()
    assert not failures, failures[:5]
    assert httpx2.get(f"{service.address}/ready").status_code == 200


@pytest.mark.parametrize(
    "body", ['{"sql":', '"text"', "[]", "null", '{"sql": 5}', '{"sql": "SELECT", "other": 1}', "\xff"]
)
def test_malformed_bodies_are_refused(client: Client, body: str) -> None:
    answer = client.http.post(
        "/v1/queries", content=body.encode("latin-1"), headers={"content-type": "application/json"}
    )
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["ok"] is False


def test_pages_that_are_not_there(client: Client) -> None:
    for path in ("/v2/queries", "/v1/queries/..%2f..%2fetc", "/static/../app.py", "/v1/queries/none"):
        answer = client.http.get(path)
        assert answer.status_code in (400, 404), (path, answer.text)


def test_a_large_body_is_refused(client: Client) -> None:
    answer = client.http.post("/v1/validate", json={"sql": "x" * (5 << 20)})
    assert answer.status_code == 413
    assert "larger" in answer.json()["message"]


def test_another_host_name_is_refused(service: Service) -> None:
    answer = httpx2.get(f"{service.address}/v1/queries", headers={"Host": "example.org"})
    assert answer.status_code == 403
