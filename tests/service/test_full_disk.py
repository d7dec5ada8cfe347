"""The disk of the state directory is full, and there is room again: the service says so and goes on by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pyarrow.dataset
import pytest

from tests.service.conftest import Service, wait_for
from tests.support.disk import fill, small_disk

pytestmark = pytest.mark.spark

SUMS = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a [TUMBLE 10 SECONDS] GROUP BY k"
JOIN = "SELECT x.v AS v, y.v AS w FROM a [RANGE 1 HOUR] x JOIN b [RANGE 1 HOUR] y ON x.k = y.k"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The state directory of a service, on a small disk."""
    with small_disk(tmp_path / "state", "8m"):
        yield tmp_path / "state"


def _ready(service: Service) -> tuple[int, Any]:
    answer = httpx2.get(f"{service.address}/ready", timeout=60)
    return answer.status_code, answer.json()


def _is_full(service: Service) -> bool:
    status, ready = _ready(service)
    return status == 503 and "no space left" in ready["error"]


def _check(service: Service, given: list[tuple[int, int]]) -> None:
    """Every row that was put is in the results once: in those that are read, and in those that are delivered."""
    client = service.client()
    assert client.rows("all", len(given)) == sorted([k, v] for k, v in given)
    expected = sorted([v, w] for k, v in given for other, w in given if k == other)
    assert client.rows("join", len(expected)) == expected
    ended = len(given) // 10 - 1
    assert sum(row[2] for row in client.rows("sums", ended)) == sum(v for _, v in given[: 10 * ended])

    def delivered() -> int:
        (folder,) = (service.folder / "out").glob("all-*")
        return int(pyarrow.dataset.dataset(folder, format="parquet").count_rows())

    wait_for(lambda: delivered() == len(given))


def _put(service: Service, given: list[tuple[int, int]]) -> None:
    """Ten rows of both streams, at the same times."""
    rows = [(len(given) // 10, len(given) + n) for n in range(10)]
    for stream in "ab":
        service.put(stream, *rows)
        service.written -= 10
    service.written += 10
    given += rows


def test_a_service_whose_disk_was_full_goes_on_by_itself(disk: Path, own_service: Callable[..., Service]) -> None:
    service = own_service('[server]\nsinks = "out"')
    client, given = service.client(), list[tuple[int, int]]()
    client.post("/v1/queries", {"sql": "SELECT k, v FROM a", "name": "all", "deliver": True})
    client.create(JOIN, "join")
    client.create(SUMS, "sums")
    for _ in range(2):
        _put(service, given)
    _check(service, given)
    fill(disk / "filler")
    _put(service, given)
    wait_for(lambda: _is_full(service))
    assert "no space left" in service.log()
    assert "[disk_full]" in service.log()
    refused = client.post("/v1/queries", {"sql": "SELECT k FROM b", "name": "late"}, expect=507)
    assert refused["code"] == "disk_full"
    assert len(client.get("/v1/queries/all/results")["rows"]) == len(given) - 10, "what is committed can be read"
    assert service.running
    (disk / "filler").unlink()
    wait_for(service.ready)
    _check(service, given)
    client.create("SELECT k FROM b", "late")
    assert {each["state"] for each in client.get("/v1/queries")["queries"]} == {"live"}
    assert service.stop() == 0, service.log()
    service.start()
    _put(service, given)
    _check(service, given)
