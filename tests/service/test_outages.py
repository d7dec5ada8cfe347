"""Java dies or hangs: the service says so, and ends in bounded time; nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.service.conftest import WITHIN, Service, wait_for

pytestmark = pytest.mark.spark


def java_of(service: Service) -> int:
    """The Java process that a service has started."""
    assert service.process is not None
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text(encoding="utf-8")
        except OSError:
            continue  # it has ended meanwhile
        if f"\nPPid:\t{service.process.pid}\n" in text and text.startswith("Name:\tjava"):
            found.append(int(status.parent.name))
    assert len(found) == 1, found
    return found[0]


def test_a_service_without_java_ends_with_the_reason(own_service: Callable[..., Service]) -> None:
    service = own_service()
    client = service.client()
    client.create("SELECT v FROM a", "kept")
    service.put("a", (1, 1))
    client.rows("kept", 1)
    os.kill(java_of(service), signal.SIGKILL)
    assert service.process is not None
    assert service.process.wait(WITHIN) == 8
    assert "the Java process that Spark runs in has ended: it was killed by signal 9" in service.log()
    service.put("a", (1, 2))
    service.start()
    assert service.client().rows("kept", 2) == [[1], [2]]


def test_a_service_that_hangs_says_so_and_can_be_stopped(own_service: Callable[..., Service]) -> None:
    service = own_service('[server]\nstop_timeout = "3 seconds"', engine='batch_limit = "5 seconds"\n')
    client = service.client()
    client.create("SELECT v FROM a", "kept")
    service.put("a", (1, 1))
    client.rows("kept", 1)
    java = java_of(service)
    os.kill(java, signal.SIGSTOP)
    service.put("a", (1, 2))
    try:
        found = wait_for(lambda: (answer := httpx2.get(f"{service.address}/ready")).status_code == 503 and answer)
        assert found.json()["state"] in ("stuck", "failing")
        assert httpx2.get(f"{service.address}/health").status_code == 200
        assert service.stop() == 9, service.log()
        assert "did not stop within 3 s" in service.log()
        wait_for(
            lambda: not Path(f"/proc/{java}").exists() or "\nState:\tZ" in Path(f"/proc/{java}/status").read_text()
        )
    finally:
        if Path(f"/proc/{java}").exists():
            os.kill(java, signal.SIGKILL)
    service.start()
    assert service.client().rows("kept", 2) == [[1], [2]]
