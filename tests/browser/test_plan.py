"""The graph of the shared plan."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.browser.page import Page
from tests.browser.service import Service
from tests.browser.workload import ALIKE, DEAR, VARIED


def _lit(page: Page, kind: str) -> list[str]:
    return sorted(text.split("\n")[-1] for text in page.texts(f".box.lit.{kind}"))


def test_the_path_of_a_query_lights_up_under_the_pointer(page: Page, service: Service) -> None:
    service.have(VARIED)
    page.open("#/plan")
    page.hover(page.one(".box.query", "dear"))
    page.one(".board.lighting")
    assert _lit(page, "query") == ["dear"]
    assert _lit(page, "stream") == ["purchases"]
    assert page.all(".edge.lit")
    page.hover(page.one("h1"))
    page.gone(".board.lighting")


def test_the_queries_of_an_operator_light_up_under_the_pointer(page: Page, service: Service) -> None:
    service.have(VARIED)
    page.open("#/plan")
    page.hover(page.one(".box.stream", "ads"))
    page.one(".board.lighting")
    assert _lit(page, "query") == ["4 queries", "long_ads", "shown"]


def test_the_keyboard_goes_from_box_to_box_and_lights_them(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/plan")
    page.one(".title p", "1 query on")
    page.run("document.querySelector('.toolbar button:last-of-type').focus();")
    page.press(Keys.TAB)
    assert "stream" in str(page.focused().get_attribute("class"))
    page.press(Keys.ARROW_UP, Keys.ARROW_DOWN)
    for _ in range(6):
        page.press(Keys.ARROW_RIGHT)
    assert page.focused().text.endswith("dear")
    assert _lit(page, "query") == ["dear"]
    page.press(Keys.ENTER)
    page.one(".chosen a", "dear")
    page.press(Keys.ESCAPE)
    page.gone(".chosen")


def test_queries_with_the_same_operators_are_one_box_with_a_list(page: Page, service: Service) -> None:
    service.have(ALIKE)
    page.open("#/plan")
    page.click(".box.query", "4 queries")
    page.one(".chosen h3", "exactly these operators")
    assert page.texts(".chosen .names a") == sorted(ALIKE)


def test_rates_are_live(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/plan")
    page.one(".box.stream .figure", "/s")
    page.wait(
        lambda: float(str(page.all(".edge")[0].get_attribute("stroke-width"))) > 1.5, "an edge as wide as its rate"
    )


def test_the_plan_is_there_as_text(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/plan")
    page.click("summary", "Plan as text")
    page.one("details pre", "shared plan: 1 queries")


def test_it_can_be_made_larger_and_smaller(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/plan")
    page.one(".box")
    width = "return document.querySelector('.box').getBoundingClientRect().width;"
    before = page.run(width)
    page.click("button[aria-label='Zoom out']")
    smaller = page.run(width)
    page.click("button[aria-label='Zoom in']")
    assert smaller < before <= page.run(width) + 1
