"""Worker threads for requests: slow reads of one tenant delay neither other tenants nor the event loop."""

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
"""Reads of rows at once, per tenant."""
LOOKS_AT_ONCE = 8
"""Looks at the engine at once, for all tenants together. They are short, but may wait for the engine's lock."""
REQUESTS_AT_ONCE = 8
"""Other requests at once, per tenant. The framework has threads for five such tenants."""
MOST_WAITING = 100
"""Requests of a tenant that run or wait at once; more are refused."""


class Workers:
    """Threads of one event loop: a pool per tenant to read rows, and a shared pool for looks at the engine."""

    def __init__(self, read_limit: float = READ_LIMIT) -> None:
        self._read_limit = read_limit
        self._readers: dict[str, ThreadPoolExecutor] = {}
        self._lookers = ThreadPoolExecutor(LOOKS_AT_ONCE, "weft-look")
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()

    async def look(self, function: Callable[_Args, _Found], *args: _Args.args, **named: _Args.kwargs) -> _Found:
        """Return the result of a function that may wait for the engine's lock."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._lookers, partial(function, *args, **named))

    async def read(
        self, tenant: Tenant, function: Callable[_Args, _Found], *args: _Args.args, **named: _Args.kwargs
    ) -> _Found:
        """Return the result of a function that reads rows for a tenant; raises ReadTimeout if Spark takes too long."""
        readers = self._readers.get(tenant.name)
        if readers is None:
            readers = self._readers[tenant.name] = ThreadPoolExecutor(READS_AT_ONCE, f"weft-read-{tenant.name}")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(readers, self._in_time, partial(function, *args, **named))

    def _in_time(self, read: Callable[[], _Found]) -> _Found:
        """Read within the limit for requests, which clients wait for; the engine's own limit is for sinks."""
        with shorter_reads(self._read_limit):
            return read()

    @asynccontextmanager
    async def waiting(self, tenant: Tenant, what: str = "requests") -> AsyncIterator[None]:
        """Count a request while it runs or waits; raises QuotaExceeded if the tenant has `MOST_WAITING` already."""
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
        """Wait for one of a tenant's turns to use a thread of the framework, and hold it."""
        turns = self._turns.setdefault(tenant.name, asyncio.Semaphore(REQUESTS_AT_ONCE))
        async with self.waiting(tenant), turns:
            yield

    def stop(self) -> None:
        """Start no more work; does not wait for work that runs."""
        for executor in (self._lookers, *self._readers.values()):
            executor.shutdown(wait=False, cancel_futures=True)


class ConnectionSlots:
    """The number of long connections, per tenant and in total; safe to call from any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def count(self, tenant: Tenant) -> int:
        """Return the number of a tenant's connections; for an administrator, of all."""
        with self._lock:
            return sum(self._taken.values()) if tenant.admin else self._taken[tenant.name]

    def take(self, tenant: Tenant) -> Callable[[], None]:
        """Take a place, and return the function that gives it back. Raises QuotaExceeded."""
        with self._lock:
            limit, taken = tenant.limits.connections, self._taken[tenant.name]
            if limit is not None and taken >= limit:
                raise QuotaExceeded(
                    f'tenant "{tenant.name}" may have {limit} connections that follow and has {taken}',
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
