"""Batches heard of by coroutines."""

from __future__ import annotations

import asyncio

from weft.service.events.commit_signal import CommitSignal


def test_whoever_waits_hears_it_from_another_thread() -> None:
    async def run() -> bool:
        bell = CommitSignal(asyncio.get_running_loop())
        waiting = asyncio.create_task(bell.wait(bell.rung, 30))
        await asyncio.sleep(0)
        await asyncio.to_thread(bell.ring)
        return await waiting

    assert asyncio.run(run())


def test_what_rang_before_is_not_missed() -> None:
    async def run() -> bool:
        bell = CommitSignal(asyncio.get_running_loop())
        rung = bell.rung
        bell.ring()
        await asyncio.sleep(0)
        return await bell.wait(rung, 0)

    assert asyncio.run(run())


def test_time_can_be_up() -> None:
    async def run() -> bool:
        bell = CommitSignal(asyncio.get_running_loop())
        return await bell.wait(bell.rung, 0.01)

    assert not asyncio.run(run())


def test_a_loop_that_has_ended_does_not_matter() -> None:
    async def make() -> CommitSignal:
        return CommitSignal(asyncio.get_running_loop())

    asyncio.run(make()).ring()
