"""Queries that have ended, as the service shows them: one that is refused spoils nothing, nobody waits for the disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_sample import JOIN, rows
from tests.support.service_sample import Here, make_service
from weft.engine.queries import identity
from weft.engine.sinks.delivery import Delivery, check_kept
from weft.engine.sinks.notes import new_note
from weft.engine.sinks.sinks import callback
from weft.errors import UnsupportedQuery
from weft.plan.query import BoundQuery
from weft.service.events.commit_signal import CommitSignal
from weft.service.events.followers import Followers
from weft.service.events.rows import Cursor
from weft.service.service import QuerySpec, Service
from weft.service.tenancy.tenants import EVERYBODY
from weft.service.workers import Workers
from weft.sql import bind
from weft.storage.ended_queries import EndedQueries


@pytest.fixture
def made(tmp_path: Path) -> tuple[Service, Here]:
    """A query that was dropped and a join that failed, both on disk only."""
    service, host = make_service(tmp_path / "state")
    service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q"), QuerySpec(JOIN, "join")])
    host.batch(a=rows((0, 1, 5)))
    service.drop(EVERYBODY, "q")
    host.catalog.core.set_aside(service.query(EVERYBODY, "join").id, 1, "by zero")
    host.batch()
    host.catalog.core.checkpoint()
    host.catalog.core.roster.bound.forget()
    return service, host


def test_a_text_that_is_refused_now_is_shown_with_why_it_failed(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it broke the list of all queries, and itself could not be seen either."""
    service, host = made

    def refuse(text: str, streams: object) -> BoundQuery:
        assert not host.catalog.core.lock._is_owned(), "others wait for the lock while a text is bound"  # type: ignore[attr-defined]
        if "JOIN" in text:
            raise UnsupportedQuery("joins are out of fashion")
        return bind(text, streams)  # type: ignore[arg-type]

    monkeypatch.setattr(identity, "bind", refuse)
    views = service.views(EVERYBODY)
    found = {query["name"]: query for query in views.queries(service.queries(EVERYBODY, "all"))}
    assert views.query(service.query(EVERYBODY, "q"))["columns"] == [{"name": "x", "type": "int"}]
    join = found["join"]
    assert (join["state"], join["error"], join["sql"]) == ("failed", "by zero", JOIN)
    assert (join["streams"], join["columns"], join["notices"]) == (["a", "b"], [], [])
    assert views.query(service.query(EVERYBODY, "join")) == join
    assert "joins are out of fashion" in service.explain(EVERYBODY, "join")["text"]


def test_a_list_of_ended_queries_reads_each_record_once_and_binds_no_text(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a list read every record again and again under the lock and bound every text: the longer a service had
    run, the slower it became while somebody looked at that list."""
    service, host = made

    def refuse(text: str, streams: object) -> BoundQuery:
        raise AssertionError("a list needs no bound query")

    monkeypatch.setattr(identity, "bind", refuse)
    readers = watch_disk(monkeypatch, host)
    found = service.views(EVERYBODY).queries(service.queries(EVERYBODY, "ended"))
    assert [(query["name"], query["state"]) for query in found] == [("q", "dropped"), ("join", "failed")]
    assert len(readers) == 1


def test_a_query_that_is_forgotten_while_it_is_listed_spoils_no_list(made: tuple[Service, Here]) -> None:
    service, host = made
    listed = service.queries(EVERYBODY, "ended")
    host.catalog.core.roster.records.forget_over("a", host.catalog.core.lock)
    found = service.views(EVERYBODY).queries(listed)
    assert [query["sql"] for query in found] == ["SELECT x FROM a", JOIN]


def test_names_of_ended_queries_are_not_looked_up_under_the_lock(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, host = made
    readers = watch_disk(monkeypatch, host)
    assert service.query(EVERYBODY, "q").state == "dropped"
    assert readers


def watch_disk(monkeypatch: pytest.MonkeyPatch, host: Here) -> list[threading.Thread]:
    """Who reads records from disk; never whoever holds the core's lock."""
    readers = list[threading.Thread]()

    def watched(read: Callable[..., Any]) -> Callable[..., Any]:
        def watching(ended: EndedQueries, *values: Any, **named: Any) -> Any:
            assert not host.catalog.core.lock._is_owned(), "all others wait for the disk"  # type: ignore[attr-defined]
            readers.append(threading.current_thread())
            return read(ended, *values, **named)

        return watching

    for name in ("get", "page", "latest"):
        monkeypatch.setattr(EndedQueries, name, watched(getattr(EndedQueries, name)))
    return readers


def test_records_on_disk_are_not_read_under_the_lock(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, host = made
    query = service.query(EVERYBODY, "q")
    core = host.catalog.core
    delivery = Delivery(core, query, sink := callback(print), note=new_note(core, query.id, sink))
    readers = watch_disk(monkeypatch, host)
    assert [tuple(row) for row in query.tail()] == [(5,)]
    assert query.batches(0, 2) == [0]
    assert (query.results_from, len(query.read(0)[1])) == (0, 1)
    assert service.page(EVERYBODY, "q", after=Cursor(0), limit=10)[1] == ["[5]"]
    assert not delivery._is_done()
    check_kept(host.catalog.core, query.id, 0)
    assert readers


def test_the_event_loop_does_not_wait_for_records_on_disk(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, host = made
    query = service.query(EVERYBODY, "q")
    readers = watch_disk(monkeypatch, host)

    async def body() -> list[str]:
        bell = CommitSignal(asyncio.get_running_loop())
        return [event async for event in Followers(service, bell, Workers()).follow(EVERYBODY, query, Cursor(0))]

    events = asyncio.run(body())
    assert [event.partition("\n")[0] for event in events] == ["event: columns", "event: rows", "event: end"]
    assert readers
    assert threading.main_thread() not in readers
