"""One Chromium and one service for all tests of this directory; each test has a tab without memories."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from tests.browser.page import Page
from tests.browser.service import Service, serve

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
TOKENS = {"ads": "token-of-the-ads-team", "shop": "token-of-the-shop-team"}


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without tenants."""
    with serve(tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that wants tokens: `TOKENS`."""
    with serve(tmp_path_factory.mktemp("guarded"), TOKENS) as running:
        yield running


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Debian's Chromium without a window."""
    if not (Path(CHROMIUM).exists() and Path(DRIVER).exists()):
        pytest.fail("no Chromium: scripts/require-chromium installs it, or says how")
    os.environ["SE_OFFLINE"] = "true"  # selenium is to use what is there
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("chromium")
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-dev-shm-usage",
        "disable-gpu",
        "hide-scrollbars",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = Chrome(options=options, service=ChromeService(DRIVER))
    yield running
    running.quit()


def _page(driver: Chrome, url: str) -> Iterator[Page]:
    page = Page(driver, url)
    page.resize(1280)
    driver.get(f"{url}/health")
    page.run("sessionStorage.clear();")
    driver.get_log("browser")
    yield page
    # A refused token is an answer; anything else that the browser complains of is a mistake of ours.
    said = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert [message for message in said if "Failed to load resource" not in message] == []


@pytest.fixture
def page(driver: Chrome, service: Service) -> Iterator[Page]:
    """A tab on the service without tenants."""
    yield from _page(driver, service.url)


@pytest.fixture
def guarded_page(driver: Chrome, guarded: Service) -> Iterator[Page]:
    """A tab on the service that wants tokens."""
    yield from _page(driver, guarded.url)
