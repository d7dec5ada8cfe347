"""When the service cannot be reached the page says so, and goes on by itself when it can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.browser.page import Page
from tests.browser.service import Service
from tests.browser.workload import DEAR


@contextmanager
def _offline(page: Page) -> Iterator[None]:
    """No new connections, and those there are end."""
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.run("(await import('./static/live.js')).live.retry();")
    conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **conditions})
    page.run("(await import('./static/live.js')).live.retry();")
    yield
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **conditions})


def test_a_lost_connection_is_told_and_found_again(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open()
    page.one("tbody a", "dear")
    with _offline(page):
        page.one("#banner", "cannot be reached")
        page.one("#banner", "Next attempt in")
        page.one("#fact-state", "offline")
    page.gone("#banner")
    page.one("#fact-state", "running")
