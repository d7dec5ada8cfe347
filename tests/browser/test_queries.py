"""The list of queries."""

from __future__ import annotations

from tests.browser.page import Page
from tests.browser.service import Service
from tests.browser.workload import ALIKE, DEAR


def test_without_queries_an_example_leads_to_the_editor(page: Page, service: Service) -> None:
    service.have({})
    page.open()
    page.one("h2", "No queries yet")
    page.click("a.button", "Open it in the editor")
    page.one(".verdict.good", "Valid")


def test_a_query_is_listed_with_its_state_rate_latency_and_what_it_shares(page: Page, service: Service) -> None:
    service.have({**ALIKE, "dear": DEAR})
    page.open()
    page.one("td .badge.live")
    page.wait(lambda: all(text not in ("", "–", "0") for text in page.texts("tbody td.number span")), "rates of all")
    page.wait(lambda: page.one(".sparkline .line").get_attribute("d"), "a line of latencies")
    assert page.one("tr:has(a[href='#/queries/near_20']) .shares", "operators with").text.endswith("4 queries")


def test_the_header_tells_how_the_engine_is(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open()
    page.one("#fact-state", "running")
    page.wait(lambda: page.one("#fact-live").text == "1", "the number of live queries")
    page.one("#fact-rate", "rows/s")


def test_the_list_is_filtered_by_name_and_text(page: Page, service: Service) -> None:
    service.have({**ALIKE, "dear": DEAR})
    page.open()
    page.one("tbody a", "near_20")
    page.type("#filter", "price > 50")
    page.gone("tbody a", "near_20")
    assert page.texts("tbody a") == ["dear"]
    page.one("[role=status]", "1 of 5 queries")
    page.type("#filter", "nothing like it")
    page.one(".empty", "No query has")


def test_a_query_that_comes_later_is_listed(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open()
    page.one("tbody a", "dear")
    service.ask("POST", "/v1/queries", {"sql": DEAR, "name": "later"})
    page.one("tbody a", "later")


def test_a_query_is_dropped_only_after_a_question(page: Page, service: Service) -> None:
    service.have({"dear": DEAR, "kept": DEAR})
    page.open()
    page.click("button[aria-label='Drop dear']")
    page.click("dialog button", "Keep it")
    page.gone("dialog")
    assert sorted(service.names()) == ["dear", "kept"]
    page.click("button[aria-label='Drop dear']")
    page.click("dialog button", "Drop query")
    page.gone("tbody a", "dear")
    assert page.texts("tbody a") == ["kept"]


def test_queries_that_ended_are_shown_when_asked_for(page: Page, service: Service) -> None:
    service.have({"gone": DEAR})
    service.have({})
    page.open()
    page.one("#state").send_keys("ended")
    page.one("tr:has(a[href='#/queries/gone']) .badge.dropped")
