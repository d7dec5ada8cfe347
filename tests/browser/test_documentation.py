"""The page of requests, made from the OpenAPI document."""

from __future__ import annotations

from tests.browser.page import Page
from tests.browser.service import Service


def test_every_request_is_there_with_what_it_takes_and_answers(page: Page, service: Service) -> None:
    page.open()
    page.click("footer a", "Requests")
    page.one("h1", "Requests")
    paths = service.ask("GET", "/openapi.json")["paths"]
    assert set(page.texts("details summary code")) == set(paths)
    page.click("summary", "/v1/queries/many")
    page.one("details[open] td", "JSON")
    page.click("details[open] a")
    assert page.run("return location.hash;").startswith("#")


def test_it_fits_small_screens(page: Page) -> None:
    page.resize(400)
    page.open("docs")
    page.one("section h2", "Shapes")
    assert page.overflow() == 0
