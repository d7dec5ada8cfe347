"""Every page on a large and on a small screen; their pictures are taken if WEFT_SCREENSHOTS names a folder."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest

from tests.browser.page import Page
from tests.browser.service import Service
from tests.browser.workload import JOIN, VARIED

ROUTES = {
    "queries": ("#/", ".sparkline .line[d*=L]"),
    "query": ("#/queries/near_20", ".follow tbody td.number"),
    "plan": ("#/plan", ".box.query"),
    "metrics": ("#/metrics", ".bar[d^=M]"),
    "new": (f"#/new?sql={quote(JOIN.format(price=30).replace(' JOIN', chr(10) + 'JOIN'))}", ".what-if li"),
    "new-invalid": (f"#/new?sql={quote('SELECT prize FROM purchases')}", ".verdict.bad"),
}


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ROUTES)
def test_no_page_is_wider_than_its_screen(page: Page, service: Service, name: str, width: int) -> None:
    service.have(VARIED)
    route, shown = ROUTES[name]
    page.resize(width)
    page.open(route)
    page.wait(lambda: page.all(shown), f"{shown} on {name}")
    page.one("#fact-state", "running")
    if name == "plan" and width == 1280:
        page.hover(page.one(".box.join"))
    time.sleep(1.0)  # a tick or two, so that figures are there
    page.screenshot(name)
    assert page.overflow() == 0


def test_every_control_has_a_name(page: Page, service: Service) -> None:
    service.have(VARIED)
    for route, shown in ROUTES.values():
        page.open(route)
        page.wait(lambda shown=shown: page.all(shown), shown)
        nameless = page.wait(lambda: [_nameless(page)], "elements that stay")[0]
        assert nameless == []


def _nameless(page: Page) -> list[str | None]:
    return [
        element.get_attribute("outerHTML")
        for element in page.all("button, a[href], input, select, textarea, [tabindex='0']")
        if element.is_displayed() and not element.accessible_name and element.tag_name != "pre"
    ]
