"""A client of the REST API.

Responses have the shapes of docs/reference/rest.md (`weft.service.http.shapes`). Errors have the engine's own classes.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict, cast
from urllib.parse import quote

import httpx2

from weft.errors import EngineStopped, InvalidSetting, QuotaExceeded, ServiceUnreachable, WeftError

if TYPE_CHECKING:
    from weft.service.http.shapes import Explained, Page, Plan, Query, Status, Stream, Tick, WhatIf

PATIENCE_SECONDS = 60.0
"""How long a reader tries to reconnect after its connection broke."""
HEARTBEAT = "heartbeat"
"""The kind of an event without data: there are no rows up to its cursor."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 5.0
_TIMEOUT = httpx2.Timeout(60.0, connect=5.0)
_SILENCE = httpx2.Timeout(45.0, connect=5.0)  # the service sends a heartbeat every fifteen seconds


class NewStream(TypedDict):
    """A stream to declare, as in the configuration file."""

    name: str
    format: str
    time: str
    path: NotRequired[str]
    schema: NotRequired[str]
    lateness: NotRequired[str]
    max_ahead: NotRequired[str]
    options: NotRequired[dict[str, str]]


class NewQuery(TypedDict):
    """A query to create."""

    sql: str
    name: NotRequired[str]


class Event(NamedTuple):
    """A server-sent event: "columns", "rows", "gap", "throttled" or "end" of a query, or "tick" of the service."""

    kind: str
    data: Any
    cursor: str = ""


class Client:
    """A client of one service, for one tenant; a context manager."""

    def __init__(
        self,
        server: str,
        *,
        token: str = "",
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.server = _checked(server)
        self._sleep = sleep
        self._http = httpx2.Client(
            base_url=self.server,
            headers={"Authorization": f"Bearer {_printable(token)}"} if token else {},
            timeout=_TIMEOUT,
            transport=transport,
            trust_env=not self.is_here,  # a proxy cannot reach the loopback address of this machine
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def is_here(self) -> bool:
        """Whether the service runs on this machine, so that paths mean the same to client and service."""
        host = httpx2.URL(self.server).host
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    # ---- queries

    def queries(self, state: str = "live") -> list[Query]:
        """Return the queries that are "live" (or pending), "ended", or "all"; sends as many requests as necessary."""
        queries, after, more = list["Query"](), 0, True
        while more:
            params = {"state": state} | ({"after": str(after)} if after else {})
            page = self._ask("GET", "/v1/queries", params=params)
            queries += page["queries"]
            after, more = page.get("cursor", 0), page.get("more", False)
        return queries

    def query(self, name: str) -> Query:
        """Return the query of this name."""
        return cast("Query", self._ask("GET", _of(name)))

    def create(self, sql: str, *, name: str | None = None, deliver: bool = False) -> Query:
        """Create a query. With `deliver`, the service also writes the rows to its sinks."""
        body = {"sql": sql, **({} if name is None else {"name": name}), **({"deliver": True} if deliver else {})}
        return cast("Query", self._ask("POST", "/v1/queries", body=body))

    def create_many(self, queries: Sequence[NewQuery]) -> list[Query]:
        """Create queries together, all or none."""
        return cast("list[Query]", self._ask("POST", "/v1/queries/many", body={"queries": list(queries)})["queries"])

    def drop(self, name: str) -> Query:
        """End a query. Its committed rows stay readable."""
        return cast("Query", self._ask("DELETE", _of(name)))

    def resume_sink(self, name: str) -> Query:
        """Let a query's failed sink continue with the rows that are kept. Rows that are gone are recorded as a gap."""
        return cast("Query", self._ask("POST", _of(name) + "/sink/resume"))

    def explain(self, name: str) -> Explained:
        """Return a query's part of the shared plan."""
        return cast("Explained", self._ask("GET", _of(name) + "/explain"))

    def what_if(self, sql: str) -> WhatIf:
        """Return what creating a query would add to the shared plan, without creating it."""
        return cast("WhatIf", self._ask("POST", "/v1/what-if", body={"sql": sql}))

    def results(self, name: str, *, after: str = "", limit: int | None = None) -> Page:
        """Return committed rows after a cursor, the oldest first."""
        params = {**({"after": after} if after else {}), **({} if limit is None else {"limit": str(limit)})}
        return cast("Page", self._ask("GET", _of(name) + "/results", params=params))

    def follow(self, name: str, *, after: str = "") -> Iterator[Event]:
        """Yield events with rows as they are committed: after a cursor, from the start ("") or from "now", until "end".

        If the connection breaks, the client reconnects and continues from the last cursor.
        """
        yield from self._events(_of(name) + "/follow", {"after": after} if after else {})

    # ---- streams and the service

    def streams(self) -> list[Stream]:
        """Return the streams that the tenant may read."""
        return cast("list[Stream]", self._ask("GET", "/v1/streams")["streams"])

    def add_stream(self, stream: NewStream) -> Stream:
        """Declare a stream; for administrators."""
        return cast("Stream", self._ask("POST", "/v1/streams", body=stream))

    def drop_stream(self, name: str, *, cascade: bool = False) -> Stream:
        """Remove a stream, with `cascade` also the queries that read it; for administrators."""
        params = {"cascade": "true"} if cascade else {}
        return cast("Stream", self._ask("DELETE", "/v1/streams/" + quote(name, safe=""), params=params))

    def set_watermark(self, stream: str, time: str) -> Stream:
        """Set a stream's watermark back; for administrators."""
        return cast("Stream", self._ask("POST", f"/v1/streams/{quote(stream, safe='')}/watermark", body={"time": time}))

    def plan(self) -> Plan:
        """Return the shared plan."""
        return cast("Plan", self._ask("GET", "/v1/plan"))

    def status(self) -> Status:
        """Return the state of the service, with its last batches."""
        return cast("Status", self._ask("GET", "/v1/status"))

    def ticks(self) -> Iterator[Tick]:
        """Yield a tick after every batch, and at least every five seconds, without end."""
        return (event.data for event in self._events("/v1/events", {}) if event.kind == "tick")

    # ---- requests

    def _ask(self, method: str, path: str, *, body: object = None, params: Mapping[str, str] | None = None) -> Any:
        with self._reachable():
            answer = self._http.request(method, path, json=body, params=params)
        return self._value(answer)

    def _value(self, answer: httpx2.Response) -> Any:
        try:
            value = answer.json()
        except ValueError:
            value = None
        if answer.is_success and value is not None:
            return value
        if isinstance(value, dict) and "code" in value:
            raise to_error(value, answer.headers)
        raise ServiceUnreachable(
            f'"{self.server}" does not answer as weft does',
            detail=f"It answered {answer.request.method} {answer.request.url.path} with status {answer.status_code}.",
            hint="Check the address; there may be something else, or a proxy without a service behind it.",
        )

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise ServiceUnreachable(
                f'no service can be reached at "{self.server}"',
                detail=f"{reason}.",
                hint="Start one with: weft serve --config weft.toml. Or give the address of another: --server URL.",
            ) from error

    def _events(self, path: str, params: dict[str, str]) -> Iterator[Event]:
        """Yield events until "end", over as many connections as necessary. The first connection must succeed."""
        waited, pause, begun = 0.0, _FIRST_PAUSE_SECONDS, False
        while True:
            try:
                for event in self._connection(path, params):
                    waited, pause, begun = 0.0, _FIRST_PAUSE_SECONDS, True
                    if event.cursor:
                        params = params | {"after": event.cursor}
                    if event.kind != HEARTBEAT:
                        yield event
                    if event.kind == "end":
                        return
                begun = True  # the connection was open, and the service closed it
            except (ServiceUnreachable, EngineStopped):
                if not begun or waited >= PATIENCE_SECONDS:
                    raise
            self._sleep(pause)
            waited, pause = waited + pause, min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _connection(self, path: str, params: Mapping[str, str]) -> Iterator[Event]:
        headers = {"Accept": "text/event-stream"}
        with (
            self._reachable(),
            self._http.stream("GET", path, params=dict(params), headers=headers, timeout=_SILENCE) as answer,
        ):
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                answer.read()
                self._value(answer)
                raise ServiceUnreachable(f'"{self.server}" does not send events', hint="Check the address.")
            yield from read_events(answer.iter_lines())


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events in the lines of a text/event-stream, without an incomplete last one.

    A cursor without data becomes a HEARTBEAT.
    """
    kind, data, cursor = "message", [], ""
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                kind = value
            case "data":
                data.append(value)
            case "id":
                cursor = value
            case _ if not line:
                if data:
                    yield Event(kind, json.loads("\n".join(data)), cursor)
                elif cursor:
                    yield Event(HEARTBEAT, None, cursor)
                kind, data, cursor = "message", [], ""
            case _:  # a comment, or an unknown field
                pass


def to_error(value: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> WeftError:
    """Return the error in a service's response, as an instance of the class with its code."""
    code = str(value["code"])
    kind = _classes().get(code, WeftError)
    error = kind(str(value.get("message", code)), detail=str(value.get("detail", "")), hint=str(value.get("hint", "")))
    error.code = code  # a newer service may have codes that this client does not know
    if isinstance(error, QuotaExceeded):
        wait = (headers or {}).get("Retry-After", "")
        error.retry_after = float(wait) if wait.isdigit() else error.retry_after
    return error


def _classes() -> dict[str, type[WeftError]]:
    classes: dict[str, type[WeftError]] = {}
    pending: list[type[WeftError]] = [WeftError]
    while pending:
        kind = pending.pop()
        classes.setdefault(kind.code, kind)  # subclasses without a code of their own are internal
        pending += kind.__subclasses__()
    return classes


def _of(name: str) -> str:
    return f"/v1/queries/{quote(name, safe='')}"


def _checked(server: str) -> str:
    try:
        url = httpx2.URL(server)
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidSetting(f'"{server}" is not the address of a service', hint="Write it like http://127.0.0.1:8080.")
    return server.rstrip("/")


def _printable(token: str) -> str:
    if not token.isascii() or not token.isprintable():
        raise InvalidSetting("the token has characters that no token has", hint="It is printable ASCII in one line.")
    return token
