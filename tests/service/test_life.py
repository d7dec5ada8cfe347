"""The full life of queries over HTTP."""

from __future__ import annotations

import pytest

from tests.service.conftest import Client, Service, wait_for

pytestmark = pytest.mark.spark


def test_a_query_lives_and_ends(service: Service, client: Client) -> None:
    made = client.post("/v1/queries", {"sql": "SELECT k, v FROM a WHERE k = 71", "name": "life"})
    assert made["state"] in ("pending", "live")
    assert made["columns"] == [{"name": "k", "type": "bigint"}, {"name": "v", "type": "bigint"}]
    wait_for(lambda: client.get("/v1/queries/life")["state"] == "live")
    assert client.get("/v1/queries/life")["deployment_ms"] > 0
    service.put("a", (71, 1), (72, 2), (71, 3))
    assert client.rows("life", 2) == [[71, 1], [71, 3]]
    assert "life" in [each["name"] for each in client.get("/v1/queries")["queries"]]
    assert client.delete("/v1/queries/life")["name"] == "life"
    wait_for(lambda: client.get("/v1/queries/life")["state"] == "dropped")
    service.put("a", (71, 4))
    client.create("SELECT v FROM a WHERE k = 71 AND v = 5", "after")
    service.put("a", (71, 5))
    assert client.rows("after", 1) == [[5]]
    assert client.rows("life", 2) == [[71, 1], [71, 3]]
    assert "life" not in [each["name"] for each in client.get("/v1/queries")["queries"]]
    assert "life" in [each["name"] for each in client.get("/v1/queries", state="ended")["queries"]]


def test_queries_come_together_or_not_at_all(client: Client) -> None:
    good, bad = {"sql": "SELECT v FROM a", "name": "good"}, {"sql": "SELECT nothing FROM a", "name": "bad"}
    error = client.post("/v1/queries/many", {"queries": [good, bad]}, expect=400)
    assert (error["ok"], error["code"]) == (False, "unknown_column")
    client.get("/v1/queries/good", expect=404)
    made = client.post("/v1/queries/many", {"queries": [good, good | {"name": "better"}]})
    assert [each["name"] for each in made["queries"]] == ["good", "better"]
    assert client.post("/v1/queries", good, expect=409)["code"] == "duplicate_query"


def test_a_join_is_explained_with_what_it_shares(service: Service, client: Client) -> None:
    text = "SELECT a.v AS x, b.v AS y FROM a [RANGE 1 HOUR] JOIN b [RANGE 1 HOUR] ON a.k = b.k WHERE a.k > {}"
    client.create(text.format(1000), "first-join")
    before = client.post("/v1/what-if", {"sql": text.format(2000)}, expect=200)
    assert {each["kind"] for each in before["operators"]} == {"stream", "selection", "store", "join"}
    assert not any(each["new"] for each in before["operators"])
    assert before["cost_added"] == 0 <= before["cost_alone"]
    fresh = client.post("/v1/what-if", {"sql": text.format(2000).replace("a.k = b.k", "a.v = b.v")}, expect=200)
    assert {each["kind"] for each in fresh["operators"] if each["new"]} == {"store", "join"}
    client.create(text.format(2000), "second-join")
    explained = client.get("/v1/queries/second-join/explain")
    joins = [each for each in explained["operators"] if each["kind"] == "join"]
    assert {"first-join", "second-join"} <= set(joins[0]["queries"])
    assert "join" in explained["text"]
    service.put("a", (3000, 1), (1500, 2))
    service.put("b", (3000, 10), (1500, 20))
    assert client.rows("first-join", 2) == [[1, 10], [2, 20]]
    assert client.rows("second-join", 1) == [[1, 10]]


def test_the_plan_is_a_graph_from_streams_to_queries(client: Client) -> None:
    client.create("SELECT k, COUNT(*) AS n FROM b [TUMBLE 10 SECONDS] GROUP BY k", "counted")
    plan = client.get("/v1/plan")
    nodes = {each["id"]: each for each in plan["nodes"]}
    assert all(a in nodes and b in nodes for a, b in plan["edges"])
    way, reached = {"stream:b"}, {"stream:b"}
    while way:
        way = {b for a, b in plan["edges"] if a in way} - reached
        reached |= way
    assert "query:counted" in reached
    assert "aggregate" in {nodes[each]["kind"] for each in reached}
    assert "counted" in nodes["stream:b"]["queries"]


def test_validation_says_what_is_wrong(client: Client) -> None:
    found = client.post("/v1/validate", {"sql": "SELECT k + 1 AS next FROM a"}, expect=200)
    assert found["ok"]
    assert [each["name"] for each in found["columns"]] == ["next"]
    wrong = client.post("/v1/validate", {"sql": "SELECT k FROM nowhere"}, expect=200)
    assert (wrong["ok"], wrong["code"]) == (False, "unknown_stream")


def test_streams_can_be_added(service: Service, client: Client) -> None:
    spec = {"name": "late", "path": str(service.folder / "in" / "late"), "schema": "ts TIMESTAMP, k BIGINT, v BIGINT"}
    made = client.post("/v1/streams", spec | {"time": "ts", "lateness": "5 seconds"})
    assert (made["name"], made["lateness_seconds"]) == ("late", 5.0)
    assert client.post("/v1/streams", spec | {"time": "ts"}, expect=409)["code"] == "duplicate_stream"
    client.create("SELECT v FROM late", "from-late")
    service.put("late", (1, 11))
    assert client.rows("from-late", 1) == [[11]]
    rate = {"name": "ticks", "format": "rate", "options": {"rowsPerSecond": "5"}, "time": "timestamp"}
    client.post("/v1/streams", rate)
    client.create("SELECT value FROM ticks WHERE value < 3", "first-ticks")
    assert client.rows("first-ticks", 3) == [[0], [1], [2]]


def test_figures_are_there(service: Service, client: Client) -> None:
    client.create("SELECT v FROM a WHERE k = 81", "figures")
    service.put("a", (81, 1), (81, 2))
    client.rows("figures", 2)
    wait_for(lambda: client.get("/v1/queries/figures")["rows"] == 2)
    status = wait_for(lambda: (found := client.get("/v1/status"))["history"][-1]["phases"] and found)
    assert status["state"] == "running"
    assert status["history"][-1]["batch"] == status["batch"]
    assert {"compile", "tag", "commit"} <= set(status["history"][-1]["phases"])
    text = client.http.get("/metrics").text
    for name in ("weft_up 1.0", 'weft_stream_rows_total{stream="a"}', 'weft_query_rows_per_second{query="figures"'):
        assert name in text
    assert "weft_batch_phase_seconds" in text
    assert "weft_operator_rows_per_second" in text


def test_pages_are_of_the_size_that_was_asked_for(service: Service, client: Client) -> None:
    client.create("SELECT v FROM a WHERE k = 91", "pages")
    service.put("a", *((91, n) for n in range(5)))
    client.rows("pages", 5)
    first = client.get("/v1/queries/pages/results", limit=2)
    assert (len(first["rows"]), first["more"]) == (2, True)
    second = client.get("/v1/queries/pages/results", limit=10, after=first["cursor"])
    assert [each for page in (first, second) for each in page["rows"]] == [[n] for n in range(5)]
    assert not second["more"]
    assert client.get("/v1/queries/pages/results", after="x.y", expect=422)["code"] == "invalid_request"
