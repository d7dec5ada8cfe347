"""The dashboard in a browser, as a user handles it."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 30.0


class Page:
    """One tab. Whatever is looked for is waited for."""

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver = driver
        self.url = url
        self.width = 1280

    def open(self, route: str = "#/") -> None:
        """Load the dashboard anew at a route."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/{route}")

    def resize(self, width: int, height: int = 900) -> None:
        """As on a screen of this width; windows cannot be made as narrow as telephones are."""
        self.width = width
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """What the condition gives once it is true; pages are drawn anew while one looks at them."""
        waiting = WebDriverWait(self.driver, PATIENCE, ignored_exceptions=[StaleElementReferenceException])
        return waiting.until(lambda _: condition(), what)

    def all(self, selector: str) -> list[WebElement]:
        """All elements of a selector that are there now."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """What is written in all elements of a selector, at one moment."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText.trim());"
        found: list[str] = self.driver.execute_script(script, selector)
        return found

    def one(self, selector: str, text: str = "") -> WebElement:
        """The first element with this text in it that can be seen."""

        def found() -> WebElement | None:
            visible = (each for each in self.all(selector) if each.is_displayed() and text in each.text)
            return next(visible, None)

        element = self.wait(found, f"{selector} with “{text}”")
        assert isinstance(element, WebElement)
        return element

    def gone(self, selector: str, text: str = "") -> None:
        """Wait until no such element is seen any more."""
        seen = lambda: [each for each in self.all(selector) if each.is_displayed() and text in each.text]  # noqa: E731
        self.wait(lambda: not seen(), f"no {selector} with “{text}”")

    def click(self, selector: str, text: str = "") -> None:
        """Click on it, as it is then."""
        self.wait(lambda: self.one(selector, text).click() or True, f"a click on {selector} with “{text}”")

    def type(self, selector: str, text: str) -> None:
        """Replace what is in a field."""
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def chord(self, held: str, key: str) -> None:
        """Press a key while another one is held."""
        ActionChains(self.driver).key_down(held).send_keys(key).key_up(held).perform()

    def hover(self, element: WebElement) -> None:
        """Move the pointer to an element."""
        ActionChains(self.driver).move_to_element(element).perform()

    def run(self, script: str) -> Any:
        """What a piece of JavaScript returns; it may await."""
        return self.driver.execute_script(f"return (async () => {{ {script} }})();")

    def focused(self) -> WebElement:
        """Where the focus is."""
        return self.driver.switch_to.active_element

    def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        return int(self.run("const d = document.documentElement; return d.scrollWidth - d.clientWidth;"))

    def screenshot(self, name: str) -> None:
        """A picture of the whole page, if the environment says where pictures go."""
        folder = os.environ.get("WEFT_SCREENSHOTS")
        if not folder:
            return
        Path(folder).mkdir(parents=True, exist_ok=True)
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
        (Path(folder) / f"{name}-{self.width}.png").write_bytes(base64.b64decode(taken["data"]))
