"""The service's end and its next beginning: nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.service.conftest import Service, wait_for

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["asked to stop", "killed"])
def test_nothing_is_lost(own_service: Callable[..., Service], how: signal.Signals) -> None:
    service = own_service()
    client = service.client()
    client.create("SELECT v FROM a WHERE k = 1", "kept")
    rate = {"name": "ticks", "format": "rate", "options": {"rowsPerSecond": "5"}, "time": "timestamp"}
    client.post("/v1/streams", rate)
    service.put("a", *((1, n) for n in range(10)))
    client.rows("kept", 10)
    assert (service.folder / "state" / "service.json").exists()
    status = service.stop(how)
    assert status == (0 if how is signal.SIGTERM else -signal.SIGKILL), service.log()
    if how is signal.SIGTERM:
        assert not (service.folder / "state" / "service.json").exists()
    service.put("a", *((1, n) for n in range(10, 20)))
    service.start()
    client = service.client()
    assert client.rows("kept", 20) == [[n] for n in range(20)]
    assert client.get("/v1/queries/kept")["rows"] is None, "nobody has counted those before"
    assert [each["name"] for each in client.get("/v1/streams")["streams"]] == ["a", "b", "ticks"]


def test_what_follows_is_let_go_at_the_end(own_service: Callable[..., Service]) -> None:
    service = own_service()
    client = service.client()
    client.create("SELECT v FROM a", "followed")
    with client.http.stream("GET", "/v1/queries/followed/follow") as response:
        assert response.status_code == 200
        assert service.stop() == 0


def test_a_second_service_on_the_same_state_is_refused(own_service: Callable[..., Service]) -> None:
    first = own_service()
    second = Service(first.folder, log_name="second.log")
    with pytest.raises(AssertionError, match="state_locked"):
        second.start()
    wait_for(first.ready)
