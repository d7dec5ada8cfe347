"""What goes wrong with one query is that query's alone."""

from __future__ import annotations

import shutil

import pytest

from tests.service.conftest import Client, Service, wait_for

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
