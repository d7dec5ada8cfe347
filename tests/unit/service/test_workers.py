"""The event loop never waits for the engine's lock, and no tenant waits for another's reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.engine_sample import rows
from tests.support.service_sample import make_service
from weft.errors import QuotaExceeded
from weft.service import workers as module
from weft.service.config import Limits, ServerSection
from weft.service.events.commit_signal import CommitSignal
from weft.service.events.connections import Connections
from weft.service.events.followers import Followers
from weft.service.events.rows import Cursor
from weft.service.events.ticks import Ticks
from weft.service.http.app import make_app
from weft.service.service import QuerySpec
from weft.service.tenancy.tenants import EVERYBODY, Tenant, Tenants
from weft.service.workers import ConnectionSlots, Workers
from weft.spark import job_pools as spark_jobs
from weft.spark.job_pools import READ_LIMIT

WITHIN = 60.0
SLOW, QUICK = Tenant("slow", admin=False), Tenant("quick", admin=False)


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """A lock, held by another thread."""
    has, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has.set()
            done.wait(WITHIN)

    thread = threading.Thread(target=hold)
    thread.start()
    has.wait(WITHIN)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_the_loop_goes_on_while_the_engine_is_busy(tmp_path: Path) -> None:
    """As it was: whoever followed waited for the lock in the event loop, and /health with it (M5)."""
    service, host = make_service(tmp_path / "state")
    query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q")])[0]
    host.batch(a=rows((0, 1, 5)))

    async def test() -> None:
        bell, workers = CommitSignal(asyncio.get_running_loop()), Workers()
        following = Followers(service, bell, workers).follow(EVERYBODY, query, Cursor(0))
        ticking = Ticks(service, bell, workers).follow(EVERYBODY)
        with held(host.catalog.core.lock):
            waiting = [asyncio.create_task(anext(each)) for each in (following, ticking)]
            waiting.append(asyncio.create_task(_second(following, waiting[0])))
            for _ in range(100):
                await asyncio.sleep(0)  # with the lock taken in the loop, nothing would get here before it is free
            assert not waiting[1].done()
        await asyncio.wait_for(asyncio.gather(*waiting), WITHIN)
        workers.stop()

    asyncio.run(asyncio.wait_for(test(), WITHIN))


async def _second(following: Any, first: asyncio.Task[str]) -> str:
    await first
    return str(await anext(following))


def test_health_and_readiness_never_wait(tmp_path: Path) -> None:
    service, host = make_service(tmp_path / "state")
    answers: list[int] = []
    with TestClient(make_app(service), base_url="http://127.0.0.1") as client:
        # More than there are threads for requests.
        asking = [threading.Thread(target=client.get, args=("/v1/plan",)) for _ in range(50)]

        def ask() -> None:
            answers.extend(client.get(path).status_code for path in ("/health", "/ready", "/health"))

        asked = threading.Thread(target=ask)
        with held(host.catalog.core.lock):
            for each in (*asking, asked):
                each.start()
            asked.join(WITHIN)
            assert answers == [200, 200, 200]
        for each in asking:
            each.join(WITHIN)


def run(test: Callable[[Workers], Any]) -> None:
    async def body() -> None:
        workers = Workers()
        try:
            await test(workers)
        finally:
            workers.stop()

    asyncio.run(asyncio.wait_for(body(), WITHIN))


def test_slow_reads_of_one_do_not_keep_others_waiting() -> None:
    ended = threading.Event()

    async def test(workers: Workers) -> None:
        slow = [asyncio.create_task(workers.read(SLOW, ended.wait, WITHIN)) for _ in range(50)]
        assert await workers.read(QUICK, lambda: "read") == "read"
        assert await workers.look(lambda: "seen") == "seen"
        ended.set()
        await asyncio.gather(*slow)

    run(test)


def test_reads_of_a_service_have_its_own_limit() -> None:
    async def test(workers: Workers) -> None:
        assert await workers.read(QUICK, spark_jobs._shorter.get) == READ_LIMIT
        assert await workers.look(spark_jobs._shorter.get) is None

    run(test)


def test_a_tenant_has_so_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 10)

    async def test(workers: Workers) -> None:
        ended, at_once, most = asyncio.Event(), 0, 0

        async def take() -> None:
            nonlocal at_once, most
            async with workers.turn(SLOW):
                at_once += 1
                most = max(most, at_once)
                await ended.wait()
                at_once -= 1

        tasks = [asyncio.create_task(take()) for _ in range(10)]
        while most < module.REQUESTS_AT_ONCE:
            await asyncio.sleep(0)
        with pytest.raises(QuotaExceeded):
            async with workers.turn(SLOW):
                pass
        async with workers.turn(QUICK):
            pass
        ended.set()
        await asyncio.gather(*tasks)
        assert most == module.REQUESTS_AT_ONCE
        async with workers.turn(SLOW):
            pass

    run(test)


def test_connections_are_limited_for_each_tenant_and_together() -> None:
    places = ConnectionSlots(3)
    one = Tenant("one", admin=False, limits=Limits(connections=2))
    taken = [places.take(one), places.take(one)]
    with pytest.raises(QuotaExceeded, match='tenant "one" may have 2 connections'):
        places.take(one)
    places.take(QUICK)
    with pytest.raises(QuotaExceeded, match="3 connections follow at once"):
        places.take(QUICK)
    taken[0]()
    places.take(one)
    assert (places.count(one), places.count(Tenant("ops", admin=True))) == (2, 3)


def test_a_connection_too_many_is_told_so(tmp_path: Path) -> None:
    one = Tenant("one", admin=False, limits=Limits(connections=1))
    service, _ = make_service(
        tmp_path / "state", Tenants({"one": "token-of-one"}, [one]), server=ServerSection(connections=5)
    )
    headers = {"Authorization": "Bearer token-of-one"}
    app = make_app(service)
    with TestClient(app, base_url="http://weft.example") as client:
        client.post("/v1/queries", json={"sql": "SELECT x FROM a", "name": "q"}, headers=headers)
        client.delete("/v1/queries/q", headers=headers)
        streaming: Connections = app.state.streaming
        followed = client.get("/v1/queries/q/follow", headers=headers)  # it has ended, so the answer does too
        assert followed.headers["X-Accel-Buffering"] == "no"
        assert streaming.places.count(one) == 0, "the place is given back"
        streaming.places.take(one)
        for path in ("/v1/queries/q/follow", "/v1/events"):
            refused = client.get(path, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
        assert "weft_followers 1.0" in client.get("/metrics", headers=headers).text


def test_what_is_too_often_asked_is_refused(tmp_path: Path) -> None:
    one = Tenant("one", admin=False, limits=Limits(what_if_per_minute=3))
    service, _ = make_service(tmp_path / "state", Tenants({"one": "token-of-one"}, [one]))
    headers, body = {"Authorization": "Bearer token-of-one"}, {"sql": "SELECT x FROM a"}
    with TestClient(make_app(service), base_url="http://weft.example") as client:
        answers = [client.post(f"/v1/{what}", json=body, headers=headers) for what in ("validate", "what-if") * 2]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1


def test_checks_of_two_tenants_go_on_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: one lock was held over Spark's analysis of everybody's queries (M5)."""
    service, host = make_service(tmp_path / "state")
    together = threading.Barrier(2)
    check = host.catalog.check

    def slow(sql: str, **named: Any) -> Any:
        together.wait(WITHIN)
        return check(sql, **named)

    monkeypatch.setattr(host.catalog, "check", slow)
    threads = [
        threading.Thread(target=service.create, args=(tenant, [QuerySpec("SELECT x FROM a", "q")]))
        for tenant in (SLOW, QUICK)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(WITHIN)
    assert sorted(host.catalog.core.roster.names) == ["quick.q", "slow.q"]
    assert not together.broken
