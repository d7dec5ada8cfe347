"""Following queries: every row once, for many readers, at any speed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests.service.conftest import Client, Service, events, wait_for

pytestmark = pytest.mark.spark


def test_rows_come_as_they_are_committed(service: Service, client: Client) -> None:
    client.create("SELECT v FROM a WHERE k = 101", "followed")
    service.put("a", (101, 1))
    client.rows("followed", 1)
    with client.http.stream("GET", "/v1/queries/followed/follow") as response:
        seen = events(response)
        assert next(seen) == ("columns", "0", [{"name": "v", "type": "bigint"}])
        kind, cursor, data = next(seen)
        assert (kind, data["rows"]) == ("rows", [[1]])
        service.put("a", (101, 2))
        assert next(seen)[2]["rows"] == [[2]]
    with client.http.stream("GET", "/v1/queries/followed/follow", headers={"Last-Event-ID": cursor}) as response:
        seen = events(response)
        assert next(seen)[0] == "columns"
        assert next(seen)[2]["rows"] == [[2]]
        client.delete("/v1/queries/followed")
        assert next(seen) == ("end", "", {"state": "dropped", "error": ""})


def test_two_hundred_clients_follow_at_once(service: Service, client: Client) -> None:
    client.create("SELECT v FROM a WHERE k = 111", "crowd")

    async def follow(http: httpx2.AsyncClient, ready: asyncio.Event) -> list[int]:
        found: list[int] = []
        async with http.stream("GET", "/v1/queries/crowd/follow") as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                if line.startswith("event: columns"):
                    ready.set()
                if line.startswith('data: {"batch"'):
                    found += [row[0] for row in json.loads(line[6:])["rows"]]
                if len(found) >= 30:
                    return found
        return found

    async def crowd() -> list[list[int]]:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=service.address, timeout=100, limits=limits) as http:
            ready = [asyncio.Event() for _ in range(200)]
            tasks = [asyncio.create_task(follow(http, each)) for each in ready]
            await asyncio.gather(*(each.wait() for each in ready))
            for first in range(0, 30, 10):
                await asyncio.to_thread(service.put, "a", *((111, n) for n in range(first, first + 10)))
            return await asyncio.gather(*tasks)

    found = asyncio.run(crowd())
    assert len(found) == 200
    assert all(sorted(each) == list(range(30)) for each in found)


def test_a_reader_that_does_not_read_blocks_nobody(service: Service, client: Client) -> None:
    client.create("SELECT ts, k, v, 'a text that fills buffers soon' AS filling FROM a WHERE k = 121", "wide")
    with client.http.stream("GET", "/v1/queries/wide/follow") as response:
        assert response.status_code == 200  # and nothing is read of it
        for _ in range(3):
            service.put("a", *((121, n) for n in range(20_000)))
        wait_for(lambda: client.get("/v1/queries/wide")["rows"] == 60_000)
        client.create("SELECT v FROM a WHERE k = 122", "quick")
        service.put("a", (122, 7))
        assert client.rows("quick", 1) == [[7]]


def test_the_dashboard_hears_of_every_batch(service: Service, client: Client) -> None:
    client.create("SELECT v FROM a WHERE k = 131", "ticking")
    with client.http.stream("GET", "/v1/events") as response:
        seen = events(response)
        first = next(seen)[2]
        assert first["status"]["state"] == "running"
        service.put("a", (131, 1))
        later = _until(seen, lambda tick: tick["queries"]["ticking"]["rows"] == 1)
        assert later["batch"]["batch"] >= first["status"]["batch"]
        assert later["streams"]["a"]["rows"] >= 1


def _until(seen: Any, what: Any) -> Any:
    for _, _, data in seen:
        if what(data):
            return data
    raise AssertionError("the events have ended")
