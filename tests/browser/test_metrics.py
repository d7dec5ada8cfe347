"""Plots of the engine, and its streams."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.browser.page import Page
from tests.browser.service import Service
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


def test_streams_are_listed_with_their_figures(page: Page, service: Service) -> None:
    page.open("#/metrics")
    page.one("td b", "purchases")
    page.click("td summary", "ads")
    page.one("td .columns", "event time")
    page.wait(lambda: page.one("td[data-label=Watermark]").text.endswith("UTC"), "a watermark")
