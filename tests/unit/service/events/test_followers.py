"""Following queries without HTTP: every row once, the end, gaps and quotas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_sample import rows
from tests.support.service_sample import Here, make_service
from weft.errors import ReadTimeout
from weft.service.config import Limits
from weft.service.events import followers as follow_module
from weft.service.events import rows as rows_module
from weft.service.events.commit_signal import CommitSignal
from weft.service.events.followers import Followers
from weft.service.events.rows import Cursor, parse_cursor
from weft.service.events.ticks import Ticks
from weft.service.service import QuerySpec, Service
from weft.service.tenancy.tenants import EVERYBODY, Tenant
from weft.service.workers import Workers

Event = tuple[str, str, Any]


def parse(text: str) -> Event:
    fields = dict(line.split(": ", 1) for line in text.strip().splitlines())
    return fields["event"], fields.get("id", ""), json.loads(fields["data"])


async def take(events: AsyncIterator[str], count: int) -> list[Event]:
    return [parse(await asyncio.wait_for(anext(events), 30)) for _ in range(count)]


@pytest.fixture
def made(tmp_path: Path) -> tuple[Service, Here]:
    return make_service(tmp_path / "state")


def run(made: tuple[Service, Here], test: Callable[[Followers, CommitSignal], Any]) -> Any:
    async def body() -> Any:
        bell = CommitSignal(asyncio.get_running_loop())
        return await test(Followers(made[0], bell, Workers()), bell)

    return asyncio.run(body())


def test_rows_come_in_order_and_then_the_end(made: tuple[Service, Here]) -> None:
    service, host = made
    query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q")])[0]
    host.batch(a=rows((0, 1, 5), (1, 1, 6)))

    async def test(followers: Followers, bell: CommitSignal) -> None:
        events = followers.follow(EVERYBODY, query, Cursor(0))
        assert await take(events, 2) == [
            ("columns", "0", [{"name": "x", "type": "int"}]),
            ("rows", "1", {"batch": 0, "rows": [[5], [6]]}),
        ]
        host.batch(a=rows((2, 1, 7)))
        bell.ring()
        assert await take(events, 1) == [("rows", "2", {"batch": 1, "rows": [[7]]})]
        service.drop(EVERYBODY, "q")
        bell.ring()
        assert await take(events, 1) == [("end", "", {"state": "dropped", "error": ""})]
        assert [event async for event in events] == []
        assert followers.count == 0

    run(made, test)


def test_a_cursor_goes_on_where_it_was(made: tuple[Service, Here]) -> None:
    service, host = made
    query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q")])[0]
    host.batch(a=rows((0, 1, 5), (1, 1, 6)))

    async def test(followers: Followers, bell: CommitSignal) -> None:
        found = await take(followers.follow(EVERYBODY, query, Cursor(0, 1)), 2)
        assert found[1] == ("rows", "1", {"batch": 0, "rows": [[6]]})

    run(made, test)


def test_rows_that_are_not_kept_are_a_gap(made: tuple[Service, Here]) -> None:
    service, host = made
    query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q")])[0]
    for number in range(3):
        host.batch(a=rows((number, 1, number)))
    host.catalog.core.trim_results(2)

    async def test(followers: Followers, bell: CommitSignal) -> None:
        kinds = await take(followers.follow(EVERYBODY, query, Cursor(0)), 3)
        assert [kind for kind, _, _ in kinds] == ["columns", "gap", "rows"]
        assert kinds[2][2] == {"batch": 2, "rows": [[2]]}

    run(made, test)


def test_a_quota_slows_only_its_tenant(made: tuple[Service, Here]) -> None:
    service, host = made
    slow = Tenant("slow", admin=False, limits=Limits(result_rows_per_second=1000))
    query = service.create(slow, [QuerySpec("SELECT x FROM a", "q")])[0]
    host.batch(a=rows(*((n, 1, n) for n in range(1100))))
    host.batch(a=rows((2000, 1, 0)))

    async def test(followers: Followers, bell: CommitSignal) -> None:
        kinds = [kind for kind, _, _ in await take(followers.follow(slow, query, Cursor(0)), 4)]
        assert kinds == ["columns", "rows", "throttled", "rows"]

    run(made, test)


def test_many_who_wait_for_the_same_rows_cause_one_read(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, host = made
    query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q")])[0]
    host.batch(a=rows((0, 1, 5)))
    reads: list[int] = []
    read = rows_module._read  # whoever comes later has what was read before
    monkeypatch.setattr(
        rows_module, "_read", lambda query, at, most: (reads.append(at.batch), read(query, at, most))[1]
    )

    async def test(followers: Followers, bell: CommitSignal) -> None:
        everybody = [followers.follow(EVERYBODY, query, Cursor(0)) for _ in range(50)]
        found = await asyncio.gather(*(take(events, 2) for events in everybody))
        assert all(each[1][2]["rows"] == [[5]] for each in found)

    run(made, test)
    assert reads == [0]


def test_a_query_without_rows_is_heard_of_though_batches_are_committed(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, only a time without any batch made a heartbeat: readers of a query without rows were cut off."""
    service, host = made
    query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a WHERE x > 5", "q")])[0]
    host.batch(a=rows((0, 1, 9)))
    monkeypatch.setattr(follow_module, "BEAT", 0.05)

    async def test(followers: Followers, bell: CommitSignal) -> None:
        async def ring() -> None:
            while True:
                await asyncio.to_thread(host.batch, a=rows((0, 1, 1)))
                bell.ring()

        ringing = asyncio.create_task(ring())
        events = followers.follow(EVERYBODY, query, Cursor(0))
        await take(events, 2)
        beats = [await asyncio.wait_for(anext(events), 30) for _ in range(3)]
        ringing.cancel()
        assert all(beat.startswith(": still here\nid: ") for beat in beats)
        assert parse_cursor(beats[-1].split()[-1]) > Cursor(1)

    run(made, test)


def test_all_are_let_go_when_the_service_stops(made: tuple[Service, Here]) -> None:
    service, _ = made
    query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q")])[0]

    async def test(followers: Followers, bell: CommitSignal) -> None:
        events = followers.follow(EVERYBODY, query, Cursor(0))
        await take(events, 1)
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        followers.stopped = True
        bell.ring()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, 30)

    run(made, test)


def test_ticks_say_how_it_goes(made: tuple[Service, Here]) -> None:
    service, host = made
    service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q")])

    async def test(_: Followers, bell: CommitSignal) -> None:
        host.on_batch = bell.ring
        host.start()
        events = Ticks(service, bell, Workers()).follow(EVERYBODY)
        (first,) = await take(events, 1)
        assert first[0] == "tick"
        assert first[2]["status"]["live"] == 1
        await asyncio.to_thread(host.batch, a=rows((0, 1, 5)))
        (second,) = await take(events, 1)
        assert second[2]["queries"]["q"]["rows"] == 1
        assert second[2]["batch"]["rows"] == 1
        host.stop()

    run(made, test)


def test_rows_that_take_too_long_come_later(made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch) -> None:
    service, host = made
    monkeypatch.setattr(follow_module, "_FIRST_PAUSE_LATE", 0.01)
    query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q")])[0]
    host.batch(a=rows((0, 1, 5), (1, 1, 6)))
    read, tries = service.reader.rows, 0

    def late(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries in (1, 2):
            raise ReadTimeout("reading rows took longer than 20 seconds and was broken off")
        return read(*arguments)

    monkeypatch.setattr(service.reader, "rows", late)

    async def test(followers: Followers, bell: CommitSignal) -> None:
        found = await take(followers.follow(EVERYBODY, query, Cursor(0)), 4)
        assert [kind for kind, _, _ in found] == ["columns", "throttled", "throttled", "rows"]
        assert found[3][2] == {"batch": 0, "rows": [[5], [6]]}

    run(made, test)
