"""The client: what it asks, what errors become, how it follows a query over broken connections."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

import weft.errors
from weft.errors import EngineStopped, InvalidSetting, QuotaExceeded, ServiceUnreachable, UnknownQuery, WeftError
from weft.service.client import HEARTBEAT, PATIENCE_SECONDS, Client, Event, read_events, to_error

SERVER = "http://127.0.0.1:8080"
ERRORS = [
    kind
    for _, kind in inspect.getmembers(weft.errors, inspect.isclass)
    if issubclass(kind, WeftError) and kind.__module__ == weft.errors.__name__
]
ROWS = 'event: rows\nid: 3\ndata: {"batch": 2, "rows": [[1]]}\n\n'
MORE = 'event: rows\nid: 4.7\ndata: {"batch": 4, "rows": [[2]]}\n\n'
END = 'event: end\ndata: {"state": "dropped", "error": ""}\n\n'

Answer = Callable[[httpx2.Request], httpx2.Response]


class Service:
    """Answers requests in turn and remembers them."""

    def __init__(self, *answers: httpx2.Response | Exception, token: str = "") -> None:
        self._answers = list(answers)
        self.asked: list[httpx2.Request] = []
        self.slept: list[float] = []
        transport = httpx2.MockTransport(self._answer)
        self.client = Client(SERVER, token=token, transport=transport, sleep=self.slept.append)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def request(self) -> httpx2.Request:
        (request,) = self.asked
        return request


def answers(value: object, status: int = 200, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json=value, headers=headers)


def events(*texts: str, breaks: bool = False) -> httpx2.Response:
    def content() -> Iterator[bytes]:
        for text in texts:
            yield text.encode()
        if breaks:
            raise httpx2.ReadError("the connection was reset")

    return httpx2.Response(200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=content())


def error(code: str, **more: str) -> dict[str, object]:
    return {"ok": False, "code": code, "message": "it is so", "detail": "", "hint": "", **more}


# ---- requests


def test_ended_queries_are_asked_for_page_by_page() -> None:
    pages = [{"queries": ["a", "b"], "cursor": 7, "more": True}, {"queries": ["c"], "cursor": 9, "more": False}]
    service = Service(*map(answers, pages))
    assert service.client.queries("ended") == ["a", "b", "c"]
    assert [request.url.raw_path.decode() for request in service.asked] == [
        "/v1/queries?state=ended",
        "/v1/queries?state=ended&after=7",
    ]


@pytest.mark.parametrize(
    ("ask", "method", "target", "body"),
    [
        (lambda c: c.queries(), "GET", "/v1/queries?state=live", None),
        (lambda c: c.queries("all"), "GET", "/v1/queries?state=all", None),
        (lambda c: c.query("q1"), "GET", "/v1/queries/q1", None),
        (lambda c: c.create("SELECT 1"), "POST", "/v1/queries", {"sql": "SELECT 1"}),
        (
            lambda c: c.create("SELECT 1", name="one", deliver=True),
            "POST",
            "/v1/queries",
            {"sql": "SELECT 1", "name": "one", "deliver": True},
        ),
        (lambda c: c.create_many([{"sql": "a"}]), "POST", "/v1/queries/many", {"queries": [{"sql": "a"}]}),
        (lambda c: c.drop("ads.q1"), "DELETE", "/v1/queries/ads.q1", None),
        (lambda c: c.explain("q1"), "GET", "/v1/queries/q1/explain", None),
        (lambda c: c.resume_sink("q1"), "POST", "/v1/queries/q1/sink/resume", None),
        (lambda c: c.what_if("SELECT 1"), "POST", "/v1/what-if", {"sql": "SELECT 1"}),
        (lambda c: c.results("q1"), "GET", "/v1/queries/q1/results", None),
        (lambda c: c.results("q1", after="7.3", limit=9), "GET", "/v1/queries/q1/results?after=7.3&limit=9", None),
        (lambda c: c.streams(), "GET", "/v1/streams", None),
        (lambda c: c.add_stream({"name": "s"}), "POST", "/v1/streams", {"name": "s"}),
        (lambda c: c.set_watermark("a b", "2026"), "POST", "/v1/streams/a%20b/watermark", {"time": "2026"}),
        (lambda c: c.plan(), "GET", "/v1/plan", None),
        (lambda c: c.status(), "GET", "/v1/status", None),
    ],
)
def test_a_method_is_a_request(ask: Callable[[Any], Any], method: str, target: str, body: object) -> None:
    service = Service(answers({"queries": ["found"], "streams": ["found"], "name": "found"}))
    found = ask(service.client)
    assert found in ([["found"]][0], {"queries": ["found"], "streams": ["found"], "name": "found"})
    assert (service.request.method, service.request.url.raw_path.decode()) == (method, target)
    assert (json.loads(service.request.content) if service.request.content else None) == body


def test_a_name_stays_in_its_place() -> None:
    service = Service(answers({}))
    service.client.query("../status?x#y z")
    assert service.request.url.raw_path == b"/v1/queries/..%2Fstatus%3Fx%23y%20z"


def test_the_token_goes_along() -> None:
    service = Service(answers({}), token="secret-of-ads")
    service.client.status()
    assert service.request.headers["authorization"] == "Bearer secret-of-ads"


def test_without_a_token_nothing_is_claimed() -> None:
    service = Service(answers({}))
    service.client.status()
    assert "authorization" not in service.request.headers


@pytest.mark.parametrize("token", ["two\nlines", "schlüssel"])
def test_what_no_header_can_hold_is_no_token(token: str) -> None:
    with pytest.raises(InvalidSetting, match="token") as caught:
        Client(SERVER, token=token)
    assert token not in str(caught.value)


@pytest.mark.parametrize("server", ["localhost:8080", "ftp://host", "http://", "", "http://[::1", "/v1"])
def test_what_is_no_address_is_refused(server: str) -> None:
    with pytest.raises(InvalidSetting, match="is not the address of a service"):
        Client(server)


@pytest.mark.parametrize(
    ("server", "here"),
    [("http://127.0.0.1:8080", True), ("http://localhost", True), ("http://[::1]:80/", True), ("https://weft", False)],
)
def test_it_knows_whether_the_service_is_on_this_machine(server: str, here: bool) -> None:
    with Client(server) as client:
        assert client.is_here is here


# ---- errors


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_are_of_the_engines_classes(kind: type[WeftError]) -> None:
    service = Service(answers(kind("it is so", detail="Because.", hint="Do this.").to_dict(), 400))
    with pytest.raises(kind) as caught:
        service.client.status()
    assert type(caught.value) is kind
    found = caught.value
    assert (found.code, found.message, found.detail, found.hint) == (kind.code, "it is so", "Because.", "Do this.")


def test_a_quota_says_when_to_come_again() -> None:
    service = Service(answers(error("quota_exceeded"), 429, **{"Retry-After": "17"}))
    with pytest.raises(QuotaExceeded) as caught:
        service.client.create("SELECT 1")
    assert caught.value.retry_after == 17.0


def test_an_error_of_a_newer_service_keeps_its_code() -> None:
    found = to_error(error("too_curious"))
    assert (type(found), found.code) == (WeftError, "too_curious")
    assert WeftError.code == "weft_error"


@pytest.mark.parametrize(
    "answer",
    [httpx2.Response(502, text="<html>Bad Gateway</html>"), httpx2.Response(200, text="hello"), answers(["no"], 500)],
)
def test_something_else_at_the_address_is_noticed(answer: httpx2.Response) -> None:
    with pytest.raises(ServiceUnreachable, match="does not answer as weft does") as caught:
        Service(answer).client.status()
    assert f"status {answer.status_code}" in caught.value.detail


def test_nobody_at_the_address_is_said_with_what_to_do() -> None:
    with pytest.raises(ServiceUnreachable, match=SERVER) as caught:
        Service(httpx2.ConnectError("Connection refused")).client.queries()
    assert caught.value.detail == "Connection refused."
    assert "weft serve" in caught.value.hint


# ---- events


def test_events_have_a_kind_data_and_a_cursor() -> None:
    lines = [": hello", "", "event: rows", "id: 3", 'data: {"rows":', "data:  []}", "retry: 5", "", "data: 1", ""]
    assert list(read_events(lines)) == [Event("rows", {"rows": []}, "3"), Event("message", 1)]


def test_an_event_that_is_cut_off_was_not_sent() -> None:
    assert list(read_events(["event: rows", "data: 1", "", "event: rows", "data: {"])) == [Event("rows", 1)]


def test_a_cursor_without_data_is_a_heartbeat() -> None:
    lines = [": still here", "id: 7", "", ": hello", "", "data: 1", ""]
    assert list(read_events(lines)) == [Event(HEARTBEAT, None, "7"), Event("message", 1)]


def test_a_heartbeat_moves_the_cursor_of_the_next_connection() -> None:
    """Rows that came last may not be kept any more when the connection breaks, though none were missed."""
    service = Service(events(ROWS, ": still here\nid: 9\n\n"), events(END))
    assert [event.kind for event in service.client.follow("q")] == ["rows", "end"]
    assert service.asked[-1].url.params["after"] == "9"


def test_following_ends_with_the_query() -> None:
    service = Service(events(ROWS, END))
    found = list(service.client.follow("q1", after="now"))
    assert [event.kind for event in found] == ["rows", "end"]
    assert service.request.url.raw_path == b"/v1/queries/q1/follow?after=now"


@pytest.mark.parametrize("breaks", [True, False])
def test_a_connection_that_ends_early_is_made_again_from_the_last_cursor(breaks: bool) -> None:
    service = Service(events(ROWS, MORE, breaks=breaks), events(END))
    assert [event.kind for event in service.client.follow("q1")] == ["rows", "rows", "end"]
    assert [request.url.query for request in service.asked] == [b"", b"after=4.7"]
    assert service.slept == [0.5]


def test_a_service_that_is_being_restarted_is_waited_for() -> None:
    starting = answers(error("engine_stopped"), 503)
    service = Service(events(ROWS), httpx2.ConnectError("refused"), starting, httpx2.Response(502), events(END))
    assert [event.kind for event in service.client.follow("q1")] == ["rows", "end"]
    assert service.slept == [0.5, 1.0, 2.0, 4.0]


def test_patience_ends() -> None:
    service = Service(events(ROWS), httpx2.ConnectError("refused"))
    with pytest.raises(ServiceUnreachable):
        list(service.client.follow("q1"))
    assert PATIENCE_SECONDS <= sum(service.slept) < PATIENCE_SECONDS + 10


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (httpx2.ConnectError("refused"), ServiceUnreachable),
        (answers(error("engine_stopped"), 503), EngineStopped),
        (answers(error("unknown_query"), 404), UnknownQuery),
        (answers({"ok": True}), ServiceUnreachable),
    ],
)
def test_what_is_wrong_from_the_start_is_raised_at_once(
    answer: httpx2.Response | Exception, kind: type[WeftError]
) -> None:
    service = Service(answer)
    with pytest.raises(kind):
        list(service.client.follow("q1"))
    assert service.slept == []


def test_a_query_that_is_gone_after_a_break_is_not_waited_for() -> None:
    service = Service(events(ROWS), answers(error("unknown_query"), 404))
    with pytest.raises(UnknownQuery):
        list(service.client.follow("q1"))


def test_ticks_are_the_data_of_the_events() -> None:
    service = Service(events('event: tick\ndata: {"batch": null}\n\n', "event: other\ndata: 1\n\n"))
    ticks = service.client.ticks()
    assert next(ticks) == {"batch": None}
    assert service.request.url.path == "/v1/events"
