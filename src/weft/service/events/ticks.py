"""Events for the dashboard and `weft top`: one per batch, rendered once per tenant and shared by its connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from weft.errors import EngineStopped
from weft.service.events.commit_signal import CommitSignal
from weft.service.events.followers import event
from weft.service.service import Service
from weft.service.tenancy.tenants import Tenant
from weft.service.workers import Workers

_AT_LEAST = 5.0
"""Longest time between two events in seconds, with or without a batch."""


class Ticks:
    """All connections that follow the engine, of one event loop."""

    def __init__(self, service: Service, bell: CommitSignal, workers: Workers) -> None:
        self._service, self._bell, self._workers = service, bell, workers
        self._made: dict[str, tuple[int, asyncio.Task[str]]] = {}
        self.stopped = False

    async def follow(self, tenant: Tenant) -> AsyncIterator[str]:
        """Yield the events for a tenant, until the service stops."""
        while not self.stopped:
            rung = self._bell.rung
            yield await self._tick(tenant, rung)
            if not await self._bell.wait(rung, _AT_LEAST):
                self._made.pop(tenant.name, None)  # states may have changed without a batch

    async def _tick(self, tenant: Tenant, rung: int) -> str:
        cached = self._made.get(tenant.name)
        if cached is None or cached[0] != rung:
            cached = rung, asyncio.create_task(self._workers.look(self._make, tenant))
            self._made[tenant.name] = cached
        return await asyncio.shield(cached[1])

    def _make(self, tenant: Tenant) -> str:
        service = self._service
        state, error = service.state(tenant)
        try:
            return event("tick", service.views(tenant).tick(state, error, service.queries(tenant)))
        except EngineStopped:
            return event("tick", {"status": None, "state": state, "error": error})
