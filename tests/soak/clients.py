"""Those who use the service of a soak: they create and drop, follow, poll and look around, each in a thread."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from tests.soak.queries import RESIDENTS, Guest, guests
from tests.soak.site import ADMIN, Caller, Site
from weft.errors import UnknownQuery
from weft.service.client import read_events

_SILENCE = httpx2.Timeout(45.0, connect=10.0)
"""The service says something every fifteen seconds."""
_KEEP_OUTPUT = 60.0
"""Seconds after which the output of a dropped query is removed, as somebody would who has read it."""
_PAGES = 60
"""Of ended queries that are looked at in a row."""
_FOLLOWED = 7
"""Every so many guests, one is followed."""


class Worker:
    """A thread that does something until it is stopped."""

    def __init__(self, site: Site, name: str) -> None:
        self.site = site
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=f"soak-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; `join` waits."""
        self.stopping.set()

    def join(self, seconds: float = 60.0) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    @property
    def is_alive(self) -> bool:
        """Whether it still does something."""
        return self._thread.is_alive()

    def _guarded(self) -> None:
        try:
            self.run()
        except Exception as error:
            self.site.incidents.note(f"the soak's own thread {self._thread.name} ended: {error!r}")

    def run(self) -> None:
        """What it does."""
        raise NotImplementedError


class Churn(Worker):
    """Creates and drops guests, several a second."""

    def __init__(self, site: Site, *, out: Path, rate: float, living: int, seed: int) -> None:
        super().__init__(site, "churn")
        self._out, self._rate, self._living = out, rate, living
        self._chance = random.Random(seed)
        self._guests = guests(self._chance)
        self._callers = {tenant: Caller(site, tenant) for tenant in ("shop", "ads")}
        self._alive: deque[Guest] = deque()
        self._uncertain: set[str] = set()
        """Guests whose creation was not answered."""
        self._outputs: deque[tuple[float, Guest]] = deque()
        self._durations: list[float] = []
        self.followers: dict[str, Follower] = {}
        self.created = self.dropped = 0

    def run(self) -> None:
        """Create, and drop the oldest if there are enough."""
        due = time.monotonic()
        while not self.stopping.is_set():
            if not self.site.wait(1.0):
                continue
            self._create(next(self._guests))
            if len(self._alive) > self._living:
                self._drop(self._alive.popleft())
            self._tidy()
            due = max(due + 1 / self._rate, time.monotonic() - 1)
            self.stopping.wait(max(0.0, due - time.monotonic()))
        for caller in self._callers.values():
            caller.close()

    def take_durations(self) -> float | None:
        """The median duration of the creates since it was asked last."""
        durations, self._durations = self._durations, []
        return median(durations) if durations else None

    def _create(self, guest: Guest) -> None:
        body = {"sql": guest.sql, "name": guest.name, "deliver": guest.deliver}
        began = time.monotonic()
        answer = self._callers[guest.tenant].ask("POST", "/v1/queries", body=body)
        self._alive.append(guest)  # also without an answer: it may be there, and will be dropped
        if answer is None:
            self._uncertain.add(guest.name)
            return
        self._durations.append(time.monotonic() - began)
        self.created += 1
        if self.created % _FOLLOWED == 0:
            self.followers = {name: each for name, each in self.followers.items() if each.is_alive}
            self.followers[guest.name] = Follower(self.site, guest.tenant, guest.name, is_guest=True)
            self.followers[guest.name].start()

    def _drop(self, guest: Guest) -> None:
        if guest.name in self.followers:
            self.followers[guest.name].may_be_gone = True
        also = 404 if guest.name in self._uncertain else 0
        self._uncertain.discard(guest.name)
        answer = self._callers[guest.tenant].ask("DELETE", f"/v1/queries/{guest.name}", also=also)
        if answer is None:
            return
        self.dropped += 1
        if answer["state"] == "failed":
            self.site.incidents.note(f"a guest failed: {answer['error']}: {guest.sql}")
        if answer["sink_error"]:
            self.site.incidents.note(f"the sink of a guest failed: {answer['sink_error']}")
        if guest.deliver:
            self._outputs.append((time.monotonic() + _KEEP_OUTPUT, guest))

    def _tidy(self) -> None:
        while self._outputs and self._outputs[0][0] < time.monotonic():
            guest = self._outputs.popleft()[1]
            for folder in (self._out / guest.tenant).glob(f"*{guest.name}-q*"):
                shutil.rmtree(folder, ignore_errors=True)


class Follower(Worker):
    """Follows a query, and connects again after a restart from where it was."""

    def __init__(self, site: Site, tenant: str, query: str, *, is_guest: bool = False) -> None:
        super().__init__(site, f"follow-{query}")
        self.query = query
        self._headers = Caller(site, tenant).headers
        self._is_guest = is_guest
        self._cursor = "0"
        self.rows = 0
        self.may_be_gone = False
        """Whether the query is dropped: one that was dropped before its first batch has never been."""

    def run(self) -> None:
        """Until the query ends, or until it is stopped."""
        while not self.stopping.is_set():
            if not self.site.wait(1.0):
                continue
            generation = self.site.generation
            try:
                if any(self._ends(kind, data) for kind, data in self._events()) or self.stopping.is_set():
                    return
                self.site.complain(generation, f"follower of {self.query}: the service has closed the connection")
            except UnknownQuery as error:
                if not self.may_be_gone:
                    self.site.complain(generation, f"follower of {self.query} was lost: {error}")
                if self._is_guest and not self.site.is_excused(generation):
                    return
            except (httpx2.HTTPError, RuntimeError) as error:
                if not self.stopping.is_set():
                    self.site.complain(generation, f"follower of {self.query} was lost: {error!r}")
            self.stopping.wait(0.5)

    def _events(self) -> Iterator[tuple[str, Any]]:
        path, after = f"{self.site.address}/v1/queries/{self.query}/follow", {"after": self._cursor}
        with httpx2.stream("GET", path, params=after, headers=self._headers, timeout=_SILENCE) as answer:
            if answer.status_code == httpx2.codes.NOT_FOUND:
                raise UnknownQuery(f'query "{self.query}" does not exist')
            if not answer.is_success:
                raise RuntimeError(f"status {answer.status_code}: {answer.read()[:200]!r}")
            for event in read_events(answer.iter_lines()):
                self._cursor = event.cursor or self._cursor
                yield event.kind, event.data
                if self.stopping.is_set():
                    return

    def _ends(self, kind: str, data: Any) -> bool:
        if kind == "rows":
            self.rows += len(data["rows"])
        elif kind == "gap":
            self.site.incidents.note(f"follower of {self.query} has missed rows: {data['message']}")
        elif kind == "end" and not (self._is_guest and data["state"] == "dropped"):
            self.site.incidents.note(f"follower of {self.query}: it ended as {data['state']}: {data['error']}")
        return kind == "end"


class Poller(Worker):
    """Reads pages of a query, from cursor to cursor."""

    def __init__(self, site: Site, tenant: str, query: str) -> None:
        super().__init__(site, f"poll-{query}")
        self._caller, self._query = Caller(site, tenant), query
        self._cursor = "0"

    def run(self) -> None:
        """A page a second, and at once if there is more."""
        while not self.stopping.is_set():
            params = {"after": self._cursor, "limit": 1000}
            page = self._caller.ask("GET", f"/v1/queries/{self._query}/results", params=params)
            if page is not None:
                self._cursor = page["cursor"]
                if page["state"] not in ("live", "pending"):
                    self.site.incidents.note(f"query {self._query} is {page['state']}: {page['error']}")
            if page is None or not page["more"]:
                self.stopping.wait(1.0)
        self._caller.close()


class Visitor(Worker):
    """Looks at everything there is, as dashboards and scripts do, and at the health of the residents."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(site, "visitor")
        self._caller = Caller(site, ADMIN)
        self._chance = random.Random(seed)
        self.looked_back = 0
        """Ended queries that were read."""

    def run(self) -> None:
        """One request after the other, slowly."""
        guest = guests(self._chance)
        while not self.stopping.is_set():
            resident = self._chance.choice(RESIDENTS)
            text = {"sql": next(guest).sql}
            for method, path, body in (
                ("GET", "/metrics", None),
                ("GET", "/v1/plan", None),
                ("GET", "/v1/streams", None),
                ("GET", f"/v1/queries/{resident.tenant}.{resident.name}/explain", None),
                ("POST", "/v1/validate", text),
                ("POST", "/v1/what-if", text),
            ):
                self._caller.ask(method, path, body=body)
                if self.stopping.wait(1.0):
                    break
            self._check_residents()
            self._look_back()
        self._caller.close()

    def _look_back(self) -> None:
        """List queries that have ended, and read one of them; the rows of most are not kept any more."""
        ended, after, pages = list[str](), "0", 0
        while pages < _PAGES and not self.stopping.is_set():
            params = {"state": "ended", "after": after, "limit": 200}
            answer = self._caller.ask("GET", "/v1/queries", params=params)
            if answer is None:
                return
            ended += [query["name"] for query in answer["queries"]]
            after, pages = answer["cursor"], pages + 1
            if not answer["more"]:
                break
        for name in self._chance.sample(ended[-50:], min(2, len(ended))):
            # It may be forgotten meanwhile, as all are that were over a stream which is dropped.
            if self._caller.ask("GET", f"/v1/queries/{name}", also=404) is not None:
                self._caller.ask("GET", f"/v1/queries/{name}/results", also=410)
                self.looked_back += 1

    def _check_residents(self) -> None:
        answer = self._caller.ask("GET", "/v1/queries")
        if answer is None:
            return
        live = {query["name"]: query for query in answer["queries"]}
        for each in RESIDENTS:
            query = live.get(f"{each.tenant}.{each.name}")
            if query is None:
                self.site.incidents.note(f"query {each.name} is not live any more")
            elif query["sink_error"]:
                self.site.incidents.note(f"the sink of {each.name} failed: {query['sink_error']}")


def create_residents(site: Site) -> None:
    """Create the queries that stay; those that are compared have sinks."""
    callers = {tenant: Caller(site, tenant) for tenant in {each.tenant for each in RESIDENTS}}
    for each in RESIDENTS:
        body = {"sql": each.sql, "name": each.name, "deliver": bool(each.alone)}
        if callers[each.tenant].ask("POST", "/v1/queries", body=body) is None:
            raise SystemExit(f"query {each.name} could not be created: {list(site.incidents.found)}")
    for caller in callers.values():
        caller.close()
