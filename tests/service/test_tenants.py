"""Tenants: what each sees, and how much it may have."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest

from tests.service.conftest import Service, events

pytestmark = pytest.mark.spark

_ADS, _OPS, _SMALL = "ads-secret-0123456789", "ops-secret-0123456789", "small-secret-0123456789"
_TENANTS = f"""
[[tenants]]
name = "ads"
token_env = "ADS_TOKEN"
[[tenants]]
name = "ops"
token = "{_OPS}"
admin = true
[[tenants]]
name = "small"
token = "{_SMALL}"
live_queries = 2
creates_per_minute = 3
result_rows_per_second = 10
"""


@pytest.fixture
def shared(own_service: Callable[..., Service]) -> Service:
    return own_service(_TENANTS, ADS_TOKEN=_ADS)


def test_tenants(shared: Service) -> None:
    """One service for all of it: a Spark for each would take minutes."""
    _only_with_a_token(shared)
    _each_sees_its_own(shared)
    _quotas(shared)
    assert not any(secret in shared.log() for secret in (_ADS, _OPS, _SMALL))


def _only_with_a_token(shared: Service) -> None:
    for token in ("", "wrong", _ADS[:-1], _ADS + "x"):
        error = shared.client(token).get("/v1/queries", expect=401)
        assert error["code"] == "unauthorized"
    for path in ("/health", "/ready", "/"):
        assert httpx2.get(shared.address + path).status_code == 200
    assert httpx2.get(f"{shared.address}/metrics").status_code == 401


def _each_sees_its_own(shared: Service) -> None:
    ads, ops, small = shared.client(_ADS), shared.client(_OPS), shared.client(_SMALL)
    ads.create("SELECT v FROM a", "mine")
    small.create("SELECT v FROM a WHERE v < 1000", "mine")
    assert [each["name"] for each in ads.get("/v1/queries")["queries"]] == ["mine"]
    assert sorted(each["name"] for each in ops.get("/v1/queries")["queries"]) == ["ads.mine", "small.mine"]
    assert ops.get("/v1/queries/ads.mine")["tenant"] == "ads"
    ads.get("/v1/queries/small.mine", expect=404)
    ads.delete("/v1/queries/small.mine", expect=404)
    stores = [each for each in ads.get("/v1/plan")["nodes"] if each["kind"] == "store"]
    assert (stores[0]["queries"], stores[0]["others"]) == (["mine"], 1)
    assert "small" not in ads.http.get("/v1/plan").text + ads.http.get("/v1/queries/mine/explain").text
    assert "small" not in ads.http.get("/metrics").text
    spec = {"name": "more", "path": "in/more", "schema": "ts TIMESTAMP", "time": "ts"}
    assert ads.post("/v1/streams", spec, expect=403)["code"] == "forbidden"
    assert ads.create("SELECT k FROM a") == "q1"
    assert ops.delete("/v1/queries/ads.q1")["name"] == "ads.q1"


def _quotas(shared: Service) -> None:
    small = shared.client(_SMALL)
    small.create("SELECT k FROM a", "second")
    error = small.post("/v1/queries", {"sql": "SELECT v FROM b"}, expect=429)
    assert error["code"] == "quota_exceeded"
    assert "2 live queries" in error["message"]
    small.delete("/v1/queries/second")
    small.create("SELECT k FROM a", "third")
    small.delete("/v1/queries/third")
    answer = small.http.post("/v1/queries", json={"sql": "SELECT v FROM b"})
    assert answer.status_code == 429
    assert "3 queries per minute" in answer.json()["message"]
    assert int(answer.headers["Retry-After"]) >= 1
    shared.put("a", *((1, n) for n in range(100)))
    with small.http.stream("GET", "/v1/queries/mine/follow") as response:
        kinds = []
        for kind, _, _ in events(response):
            kinds.append(kind)
            if kind == "rows":
                break
    assert kinds[-1] == "rows"
    error = small.get("/v1/queries/mine/results", expect=429)
    assert "10 result rows per second" in error["message"]
