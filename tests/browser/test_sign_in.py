"""A service with tenants: who has no token is asked for one, and sees only what is theirs."""

from __future__ import annotations

from dataclasses import replace

from tests.browser.conftest import TOKENS
from tests.browser.page import Page
from tests.browser.service import Service
from tests.browser.workload import DEAR


def _sign_in(page: Page, token: str) -> None:
    page.type("#token", token)
    page.click("button[type=submit]", "Sign in")


def test_a_wrong_token_is_refused_and_the_right_one_is_taken(guarded_page: Page) -> None:
    guarded_page.open("#/plan")
    guarded_page.one("h1", "Sign in")
    guarded_page.screenshot("sign-in")
    _sign_in(guarded_page, "not-a-token")
    guarded_page.one(".problem", "No tenant has this token")
    _sign_in(guarded_page, TOKENS["ads"])
    guarded_page.one("h1", "Shared plan")
    guarded_page.one("#fact-tenant", "ads")


def test_the_token_stays_in_the_tab(guarded_page: Page) -> None:
    guarded_page.open()
    _sign_in(guarded_page, TOKENS["ads"])
    guarded_page.one("h1", "Queries")
    assert TOKENS["ads"] not in guarded_page.driver.current_url
    assert guarded_page.run("return localStorage.length + document.cookie.length;") == 0
    guarded_page.driver.refresh()
    guarded_page.one("#fact-tenant", "ads")


def test_after_signing_out_nothing_is_shown(guarded_page: Page) -> None:
    guarded_page.open()
    _sign_in(guarded_page, TOKENS["ads"])
    guarded_page.click("#sign-out")
    guarded_page.one("h1", "Sign in")
    assert guarded_page.run("return sessionStorage.length;") == 0
    guarded_page.run("location.hash = '#/metrics';")
    guarded_page.one("h1", "Sign in")


def test_a_tenant_sees_its_own_queries_only(guarded_page: Page, guarded: Service) -> None:
    replace(guarded, token=TOKENS["ads"]).have({"ours": DEAR})
    replace(guarded, token=TOKENS["shop"]).have({"theirs": DEAR})
    guarded_page.open()
    _sign_in(guarded_page, TOKENS["ads"])
    guarded_page.one("tbody a", "ours")
    assert guarded_page.texts("tbody a") == ["ours"]
    guarded_page.one(".shares", "with 1 query")
