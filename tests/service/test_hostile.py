"""A tenant submits all that hostile tenants do, and reads what is accepted; another one sees nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.hostile.corpus import CANARY, CORPUS, PORT
from tests.service.conftest import Client, Service, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECRET = "hostile-canary-51c0"
GOOD, BAD, OPS = "good-secret-0123456789", "bad-secret-0123456789", "ops-secret-0123456789"
DDL = (
    "ts TIMESTAMP, k BIGINT, v INT, ratio DOUBLE, name STRING, body STRING, tags ARRAY<STRING>, "
    "addr STRUCT<city: STRING>"
)
CONFIGURATION = f"""
[[tenants]]
name = "good"
token = "{GOOD}"
[[tenants]]
name = "bad"
token = "{BAD}"
[[tenants]]
name = "ops"
token = "{OPS}"
admin = true
[[streams]]
name = "s"
path = "in/s"
schema = "{DDL}"
time = "ts"
lateness = "1 hour"
"""
BODIES = ("a" * 45 + "!", "x" * 4000, "10:00", "now", "2024-05-06 07:08:09", '{"a": 1}', "http://h/?a=b", None)
TOGETHER = 24
"""Texts between two more batches of the other tenant's rows."""
QUERIES = {
    "all": "SELECT k, v FROM s",
    "some": "SELECT v FROM s WHERE upper(name) = 'N1'",
    "counts": "SELECT name, COUNT(*) AS n FROM s [TUMBLE 8 SECONDS] GROUP BY name",
    "pairs": "SELECT x.v AS v, y.v AS w FROM s [RANGE 2 SECONDS] x JOIN s [RANGE 2 SECONDS] y ON x.k = y.k",
}


class _Input:
    """Rows of the stream, a few more with every turn."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.given: list[tuple[int, int, str]] = []
        """k, v, name; one a second."""

    def put(self) -> None:
        first = len(self.given)
        new = [(n % 5, n, f"n{n % 3}") for n in range(first, first + len(BODIES))]
        self.given += new
        columns: dict[str, Any] = {
            "v": pa.array([v for _, v, _ in new], pa.int32()),
            "ratio": [v / 3 for _, v, _ in new],
            "name": [name for _, _, name in new],
            "body": list(BODIES),
            "tags": [["10:00", "b"], []] + [None] * (len(BODIES) - 2),
            "addr": [{"city": "x"}] * len(BODIES),
        }
        self._service.put("s", *((k, v) for k, v, _ in new), **columns)

    def check(self, client: Client) -> None:
        """The rows of all queries are exactly those that were put, once they have come."""
        given = self.given
        assert client.rows("all", len(given)) == sorted([k, v] for k, v, _ in given)
        some = sorted([v] for _, v, name in given if name == "n1")
        assert client.rows("some", len(some)) == some
        pairs = sorted([v, w] for k, v, _ in given for other, w, _ in given if k == other and abs(v - w) < 2)
        assert client.rows("pairs", len(pairs)) == pairs


def test_another_tenant_sees_nothing_of_hostile_queries(own_service: Callable[..., Service]) -> None:
    service = own_service(CONFIGURATION, **{CANARY: SECRET})
    good, bad, ops = service.client(GOOD), service.client(BAD), service.client(OPS)
    for name, sql in QUERIES.items():
        good.create(sql, name)
    rows = _Input(service)
    live: list[str] = []
    for number, each in enumerate(CORPUS):
        answer = bad.http.post("/v1/queries", json={"sql": each.sql.replace(PORT, "9"), "name": f"h{number}"})
        assert SECRET not in answer.text, each.name
        if each.code is None:
            assert answer.status_code == 201, (each.name, answer.text)
            live.append(f"h{number}")
        else:
            assert (answer.status_code // 100, answer.json()["code"]) == (4, each.code), (each.name, answer.text)
        if number % TOGETHER == 0:
            batch = ops.get("/v1/status")["batch"]
            rows.put()
            wait_for(lambda batch=batch: ops.get("/v1/status")["batch"] != batch)
    rows.put()
    rows.check(good)
    for name in live:
        page = bad.get(f"/v1/queries/{name}/results")
        assert (page["state"], page["error"]) == ("live", ""), name
        assert SECRET not in str(page), name
    assert {each["state"] for each in good.get("/v1/queries")["queries"]} == {"live"}
    for name in live:
        bad.delete(f"/v1/queries/{name}")
    rows.put()
    rows.check(good)
    assert SECRET not in service.log()
    assert service.ready()
