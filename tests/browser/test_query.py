"""The page of one query."""

from __future__ import annotations

from tests.browser.page import Page
from tests.browser.service import Service
from tests.browser.workload import ALIKE, DEAR


def _read(page: Page) -> str:
    return page.one(".follow .toolbar p").text


def test_rows_appear_as_they_are_committed(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/queries/dear")
    page.one(".follow th", "price")
    page.wait(lambda: len(page.all(".follow tbody tr")) > 20, "rows")
    before = _read(page)
    page.wait(lambda: _read(page) != before, "more rows")


def test_pause_holds_the_table_and_counts_what_is_newer(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/queries/dear")
    page.wait(lambda: len(page.all(".follow tbody tr")) > 5, "rows")
    page.click(".follow button", "Pause")
    page.wait(lambda: "newer rows" in _read(page) and "0 newer" not in _read(page), "newer rows that are counted")
    shown = page.one(".follow tbody").text
    page.wait(lambda: page.one(".follow tbody").text == shown, "the same rows")
    page.click(".follow button", "Resume")
    page.wait(lambda: page.one(".follow tbody").text != shown, "newer rows")


def test_at_most_200_rows_are_kept(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/queries/dear")
    page.wait(lambda: "last 200" in _read(page), "more than 200 rows")
    assert len(page.all(".follow tbody tr")) == 200


def test_its_text_columns_plots_and_sharing_are_shown(page: Page, service: Service) -> None:
    service.have(ALIKE)
    page.open("#/queries/near_20")
    page.one(".badge.live")
    page.one("pre.sql", "p.price > 20")
    page.one("section .columns", "length")
    page.wait(lambda: len(page.all(".plot path.line[d^=M]")) == 2, "two plots")
    page.one("table.cards td", "near_40, near_60, near_80")
    page.click("summary", "Plan as text")
    page.one("details pre", "shared with near_40")


def test_a_dropped_query_says_so_and_keeps_its_rows(page: Page, service: Service) -> None:
    service.have({"leaving": DEAR})
    page.open("#/queries/leaving")
    page.wait(lambda: len(page.all(".follow tbody tr")) > 5, "rows")
    page.click(".title button", "Drop")
    page.click("dialog button", "Drop query")
    page.one(".title .badge.dropped")
    page.one(".follow [role=status]", "nothing more will come")
    assert len(page.all(".follow tbody tr")) > 5


def test_a_query_that_fails_says_why_and_what_to_do(page: Page, service: Service) -> None:
    service.have({})
    service.ask("POST", "/v1/queries", {"sql": "SELECT 1 / (user_id - user_id) AS x FROM ads", "name": "broken"})
    page.open("#/queries/broken")
    page.one(".title .badge.failed")
    page.one(".problem", "Guard the expression")


def test_a_name_that_nobody_has_is_answered_with_a_way_out(page: Page) -> None:
    page.open("#/queries/nobody")
    page.one("h2", "There is no query called nobody")
    page.click("main a", "list of queries")
    page.one("h1", "Queries")
