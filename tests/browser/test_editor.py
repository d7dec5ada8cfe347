"""Writing a query: checked while it is typed, explained before it is created."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.browser.page import Page
from tests.browser.service import Service
from tests.browser.workload import ALIKE, DEAR, JOIN


def test_text_that_is_no_query_is_answered_while_it_is_typed(page: Page) -> None:
    page.open("#/new")
    page.type("#sql", "SELECT ts,\n  prize FROM purchases")
    page.one("#verdict.bad", "prize")
    page.one("#verdict .hint")
    assert page.one("#sql").get_attribute("aria-invalid") == "true"


def test_the_line_of_a_syntax_error_is_marked(page: Page) -> None:
    page.open("#/new")
    page.type("#sql", "SELECT ts\nFROM purchases\nWHERE WHERE")
    page.one("#verdict.bad", "line 3")
    assert page.one(".gutter .wrong").text == "3"


def test_a_valid_query_shows_its_columns_and_what_it_would_share(page: Page, service: Service) -> None:
    service.have(ALIKE)
    page.open("#/new")
    page.type("#sql", JOIN.format(price=99))
    page.one("#verdict.good", "3 columns")
    page.one(".what-if .columns", "length")
    page.one(".what-if .badge.shared")
    page.one(".what-if .cost", "Adds 0 rows/s of work, 100 % less")
    assert page.all(".what-if .badge.new") == [], "a join like theirs needs no operator of its own"
    page.click(".what-if summary", "Plan as text")
    page.one(".what-if pre", "shared with")


def test_operators_that_nobody_has_yet_are_new(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/new")
    page.type("#sql", JOIN.format(price=1))
    page.one(".what-if .badge.new")
    page.one(".what-if .badge.shared")
    page.one(".what-if .cost", "of work")


def test_a_query_is_created_with_the_keyboard_only(page: Page, service: Service) -> None:
    service.have({})
    page.open()
    page.one("h2", "No queries yet")
    for _ in range(10):
        if page.focused().text == "New query":
            break
        page.press(Keys.TAB)
    page.press(Keys.ENTER)
    page.wait(lambda: page.focused().get_attribute("id") == "sql", "the focus in the editor")
    page.press(DEAR)
    page.one("#verdict.good")
    page.press(Keys.TAB)
    assert page.focused().get_attribute("id") == "name"
    page.press("by_hand")
    page.chord(Keys.SHIFT, Keys.TAB)
    page.chord(Keys.CONTROL, Keys.ENTER)
    page.one("h1", "by_hand")
    assert service.names() == ["by_hand"]


def test_a_name_that_is_taken_is_said_at_the_name(page: Page, service: Service) -> None:
    service.have({"dear": DEAR})
    page.open("#/new")
    page.type("#sql", DEAR)
    page.type("#name", "dear")
    page.click("button[type=submit]", "Create query")
    page.one("form .problem", "dear")
    assert page.focused().get_attribute("id") == "name"


def test_an_example_is_valid(page: Page) -> None:
    page.open("#/new")
    for title in ("Rows of", "Counts of", "Join of"):
        page.click(".samples button", title)
        page.one("#verdict.good")
        page.one(".what-if li")


def test_what_was_typed_is_there_after_a_look_at_another_page(page: Page) -> None:
    page.open("#/new")
    page.type("#sql", DEAR)
    page.click("nav a", "Plan")
    page.one("h1", "Shared plan")
    page.click("nav a", "New query")
    assert page.one("#sql").get_attribute("value") == DEAR
