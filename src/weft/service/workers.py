"""Threads for what requests wait for: no tenant's slow reads keep the others waiting, and none the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from weft.errors import QuotaExceeded
from weft.service.tenancy.tenants import Tenant
from weft.spark.job_pools import READ_LIMIT, shorter_reads

_Args = ParamSpec("_Args")
_Found = TypeVar("_Found")

READS_AT_ONCE = 4
"""Of rows, for each tenant."""
LOOKS_AT_ONCE = 8
"""At the engine, for all tenants together: short, but the engine may be busy."""
REQUESTS_AT_ONCE = 8
"""Other requests of each tenant: those of five fit the threads that the framework has."""
MOST_WAITING = 100
"""Requests of a tenant that wait for their turn; more are refused."""


class Workers:
    """Reads of rows in threads of each tenant's own, looks at the engine in threads for all; of one event loop."""

    def __init__(self, read_limit: float = READ_LIMIT) -> None:
        self._read_limit = read_limit
        self._readers: dict[str, ThreadPoolExecutor] = {}
        self._lookers = ThreadPoolExecutor(LOOKS_AT_ONCE, "weft-look")
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()

    async def look(self, function: Callable[_Args, _Found], *args: _Args.args, **named: _Args.kwargs) -> _Found:
        """The result of something that may have to wait for the engine's lock."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._lookers, partial(function, *args, **named))

    async def read(
        self, tenant: Tenant, function: Callable[_Args, _Found], *args: _Args.args, **named: _Args.kwargs
    ) -> _Found:
        """The result of something that reads rows for a tenant, which may take long; raises ReadTimeout if Spark takes
        too long for a piece of them."""
        readers = self._readers.get(tenant.name)
        if readers is None:
            readers = self._readers[tenant.name] = ThreadPoolExecutor(READS_AT_ONCE, f"weft-read-{tenant.name}")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(readers, self._in_time, partial(function, *args, **named))

    def _in_time(self, read: Callable[[], _Found]) -> _Found:
        """Read no longer than somebody waits for an answer; the engine's own limit is that of sinks."""
        with shorter_reads(self._read_limit):
            return read()

    @asynccontextmanager
    async def waiting(self, tenant: Tenant, what: str = "requests") -> AsyncIterator[None]:
        """Wait for something together with a bounded number of others; raises QuotaExceeded beyond it."""
        key = f"{what} of {tenant.name}"
        if self._waiting[key] >= MOST_WAITING:
            raise QuotaExceeded(
                f"{MOST_WAITING} {what} of this tenant are being answered already", hint="Wait for some of them."
            )
        self._waiting[key] += 1
        try:
            yield
        finally:
            self._waiting[key] -= 1

    @asynccontextmanager
    async def turn(self, tenant: Tenant) -> AsyncIterator[None]:
        """One of a tenant's turns to be answered in a thread of the framework's."""
        turns = self._turns.setdefault(tenant.name, asyncio.Semaphore(REQUESTS_AT_ONCE))
        async with self.waiting(tenant), turns:
            yield

    def stop(self) -> None:
        """Begin nothing more; what runs is not waited for."""
        for each in (self._lookers, *self._readers.values()):
            each.shutdown(wait=False, cancel_futures=True)


class Places:
    """Connections that last, counted for each tenant and together; safe to ask from any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def count(self, tenant: Tenant) -> int:
        """Those of a tenant; an administrator is told of all."""
        with self._lock:
            return sum(self._taken.values()) if tenant.admin else self._taken[tenant.name]

    def take(self, tenant: Tenant) -> Callable[[], None]:
        """Take a place; what is returned gives it back. Raises QuotaExceeded."""
        with self._lock:
            limit, mine = tenant.limits.connections, self._taken[tenant.name]
            if limit is not None and mine >= limit:
                raise QuotaExceeded(
                    f'tenant "{tenant.name}" may have {limit} connections that follow and has {mine}',
                    hint="Close some first.",
                )
            if sum(self._taken.values()) >= self._most:
                raise QuotaExceeded(
                    f"this service lets {self._most} connections follow at once (server.connections)",
                    hint="Try again later, or read page by page.",
                )
            self._taken[tenant.name] += 1
        return partial(self._give_back, tenant.name)

    def _give_back(self, name: str) -> None:
        with self._lock:
            self._taken[name] -= 1
