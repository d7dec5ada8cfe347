"""Plots of the engine, and its streams."""

from __future__ import annotations

from typing import Any

from selenium.webdriver.common.keys import Keys

from tests.browser.page import Page
from tests.browser.service import Service, wait_for
from tests.browser.workload import DEAR


def test_throughput_latency_and_phases_are_plotted(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/metrics")
    page.wait(lambda: len(page.all(".plot path.line[d*=L]")) == 3, "lines of throughput, latency and queries")
    page.wait(lambda: page.all(".plot path.bar[d^=M]"), "stacked phases")
    page.one(".legend", "commit")


def test_plots_are_read_with_the_arrow_keys(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/metrics")
    page.wait(lambda: page.all(".plot path.line[d*=L]"), "a line")
    page.run("document.querySelector('.plot .canvas').focus();")
    page.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.one(".plot .reading", " at ")
    assert len(page.all(".plot .cursor")) == 1


def test_rows_that_no_query_gets_are_counted_by_the_reason(page: Page, service: Service) -> None:
    service.have({"dear": DEAR, "long": "SELECT user_id FROM ads WHERE length > 20"})
    wait_for(lambda: _streams(service)["ads"]["ahead_rows"] == 1, "the row that is a year ahead to be set aside")
    page.open("#/metrics")
    page.wait(lambda: len(page.all("td[data-label=Ahead]")) == 2, "a line for each stream")
    labels = {"Ahead": "ahead_rows", "Missed": "missed_rows", "Bad rows": "bad_rows", "Bad files": "bad_files"}
    streams = _streams(service)
    for label, field in labels.items():
        shown = page.texts(f"td[data-label='{label}']")
        assert shown == [str(each[field]) for each in streams.values()], label
    assert page.texts("td[data-label=Ahead] .warned") == ["1"]
    assert "ahead of the clock" in (page.one("th", "Ahead").get_attribute("title") or "")


def _streams(service: Service) -> dict[str, Any]:
    return {each["name"]: each for each in service.ask("GET", "/v1/streams")["streams"]}


def test_streams_are_listed_with_their_figures(page: Page, service: Service) -> None:
    page.open("#/metrics")
    page.one("td b", "purchases")
    page.click("td summary", "ads")
    page.one("td .columns", "event time")
    page.wait(lambda: page.one("td[data-label=Watermark]").text.endswith("UTC"), "a watermark")
