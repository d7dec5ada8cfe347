"""What goes wrong with one query is that query's alone."""

from __future__ import annotations

import shutil

import pytest

from tests.service.conftest import Client, Service, events, wait_for

pytestmark = pytest.mark.spark


def test_a_query_that_fails_is_set_aside_with_its_error(service: Service, client: Client) -> None:
    client.create("SELECT v FROM a WHERE k = 201 AND 10 / v > 0", "divides")
    client.create("SELECT v FROM a WHERE k = 201", "goes-on")
    service.put("a", (201, 5))
    client.rows("divides", 1)
    service.put("a", (201, 0))
    service.put("a", (201, 6))
    failed = wait_for(lambda: (found := client.get("/v1/queries/divides"))["state"] == "failed" and found)
    assert "zero" in failed["error"].lower()
    assert client.rows("goes-on", 3) == [[0], [5], [6]]


def test_a_query_whose_select_list_fails_is_set_aside_when_it_is_read(service: Service, client: Client) -> None:
    client.create("SELECT 10 / v AS x FROM a WHERE k = 221", "projects")
    client.create("SELECT v FROM a WHERE k = 221", "beside")
    service.put("a", (221, 5))
    assert client.rows("projects", 1) == [[2.0]]
    service.put("a", (221, 0))
    assert client.rows("beside", 2) == [[0], [5]]
    page = client.get("/v1/queries/projects/results")
    assert (page["rows"], page["state"]) == ([[2.0]], "failed"), "what comes before the row that fails can be read"
    following = client.get("/v1/queries/projects/results", after=page["cursor"])
    for answer in (page, following):
        assert "DIVIDE_BY_ZERO" in answer["error"]
    assert (following["rows"], following["state"], following["more"]) == ([], "failed", False)
    failed = wait_for(lambda: (found := client.get("/v1/queries/projects"))["state"] == "failed" and found)
    assert "DIVIDE_BY_ZERO" in failed["error"]
    assert client.rows("projects", 1) == [[2.0]]
    with client.http.stream("GET", "/v1/queries/projects/follow") as response:
        *_, (kind, _, data) = events(response)
    assert (kind, data["state"]) == ("end", "failed")


def test_a_broken_sink_is_alone_with_it(service: Service, client: Client) -> None:
    made = client.post("/v1/queries", {"sql": "SELECT v FROM a WHERE k = 211", "name": "broken", "deliver": True})
    assert made["name"] == "broken"
    client.post("/v1/queries", {"sql": "SELECT v FROM a WHERE k = 211", "name": "whole", "deliver": True})
    folder = next((service.folder / "out").glob("broken-*"))
    shutil.rmtree(folder)
    folder.write_text("not a folder")
    service.put("a", (211, 1))
    wait_for(lambda: client.get("/v1/queries/broken")["sink_error"])
    wait_for(lambda: list((service.folder / "out").glob("whole-*/*.parquet")))
    assert client.rows("broken", 1) == [[1]]
    assert client.get("/v1/queries/broken")["state"] == "live"


def test_figures_go_on_after_a_stream_is_dropped_with_its_queries(service: Service, client: Client) -> None:
    spec = {"name": "passing", "path": "in/passing", "schema": "ts TIMESTAMP, k BIGINT, v BIGINT", "time": "ts"}
    (service.folder / "in" / "passing").mkdir(parents=True)
    client.post("/v1/streams", spec | {"path": str(service.folder / "in" / "passing")})
    client.create("SELECT v FROM passing", "of-passing")
    client.create("SELECT v FROM a WHERE k = 231", "still-counted")
    service.put("passing", (231, 1))
    wait_for(lambda: client.get("/v1/queries/of-passing")["rows"] == 1)
    client.delete("/v1/streams/passing?cascade=true")
    service.put("a", (231, 2))
    client.rows("still-counted", 1)
    wait_for(lambda: client.get("/v1/queries/still-counted")["rows"] == 1)
    assert "weft-observer" not in service.log()
