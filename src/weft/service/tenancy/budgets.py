"""What running queries take: those of a tenant that stays beyond its limits are set aside, the largest first.

A thread of its own looks after batches. A tenant has a while to drop something itself before a query of it is ended.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from weft.engine.views.usage import state_bytes
from weft.errors import EngineStopped, QuotaExceeded
from weft.plan.changelog import QueryId
from weft.service.host import Host
from weft.service.match_counts import Matches, matches_of
from weft.service.observer import Counted
from weft.service.tenancy.tenants import Tenant, Tenants

_log = logging.getLogger("weft.service")
LOOK_EVERY = 5.0
STATE_GRACE = 60.0
"""Seconds that a tenant may have too much state."""
BATCHES_GRACE = 3
"""Batches in a row that may have too many matches."""
FAR_BEYOND = 10
"""Times the limit of matches: no batch of that kind is waited for again."""


class Budgets:
    """Watches an engine for the limits of its tenants."""

    def __init__(self, host: Host, tenants: Tenants, clock: Callable[[], float] = time.monotonic) -> None:
        self._host, self._clock = host, clock
        self._tenants = [tenant for tenant in tenants if not tenant.admin]
        self._bytes: dict[str, float] = {}
        self._too_much_since: dict[str, float] = {}
        self._strikes: dict[str, int] = {}
        self._seen = -1
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch, if there is a limit to watch."""
        limited = (t.limits.state_bytes is not None or t.limits.matches_per_batch is not None for t in self._tenants)
        if any(limited):
            self._thread = threading.Thread(target=self._run, name="weft-budgets", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stop.set()

    def bytes_of(self, tenant: Tenant) -> float | None:
        """The state that a tenant's queries need, when it was last looked at; None if that is not watched."""
        return self._bytes.get(tenant.name)

    def check(self, tenant: Tenant) -> None:
        """Raises QuotaExceeded if a tenant has as much state as it may have."""
        limit, taken = tenant.limits.state_bytes, self._bytes.get(tenant.name, 0.0)
        if limit is not None and taken > limit:
            raise QuotaExceeded(
                f'tenant "{tenant.name}" may have {limit} bytes of state and has {taken:.0f}',
                hint="Drop queries with long windows first.",
                retry_after=LOOK_EVERY,
            )

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY):
            try:
                self.look()
            except EngineStopped:  # it is starting, or stopping
                continue
            except Exception as error:
                _log.error(f"limits of tenants were not looked after: {error}", exc_info=error)

    def look(self) -> None:
        """Look once, and set aside what has to be."""
        if any(tenant.limits.state_bytes is not None for tenant in self._tenants):
            self._look_at_state()
        if any(tenant.limits.matches_per_batch is not None for tenant in self._tenants):
            for counted in self._host.observer.counted():
                if counted.batch > self._seen:
                    self._seen = counted.batch
                    self._look_at_matches(counted)

    # ---- state

    def _look_at_state(self) -> None:
        core, now = self._host.engine.core, self._clock()
        taken = state_bytes(core)
        for tenant in self._tenants:
            mine, limit = self._of(tenant, taken), tenant.limits.state_bytes
            total = self._bytes[tenant.name] = sum(mine.values())
            if limit is None or total <= limit:
                self._too_much_since.pop(tenant.name, None)
            elif now - self._too_much_since.setdefault(tenant.name, now) >= STATE_GRACE:
                largest = max(mine, key=lambda query: mine[query])
                reason = f"of {total:.0f} bytes of state this query needed {mine[largest]:.0f}"
                self._set_aside(largest, f'tenant "{tenant.name}" may have {limit} (state_bytes): {reason}')
                self._too_much_since[tenant.name] = now

    # ---- matches

    def _look_at_matches(self, counted: Counted) -> None:
        matches: Matches | None = None
        for tenant in self._tenants:
            limit = tenant.limits.matches_per_batch
            if limit is None:
                continue
            matches = Matches.of(self._host.engine, counted) if matches is None else matches
            mine = matches_of(self._host.engine, matches, tenant, limit)
            if mine is not None:  # a batch of which nobody knows is not held against anybody
                self._judge(tenant, limit, mine, counted.batch)

    def _judge(self, tenant: Tenant, limit: int, mine: Mapping[QueryId, float], batch: int) -> None:
        total = sum(mine.values())
        if total <= limit:
            self._strikes.pop(tenant.name, None)
            return
        strikes = self._strikes[tenant.name] = self._strikes.get(tenant.name, 0) + 1
        if strikes >= BATCHES_GRACE or total > FAR_BEYOND * limit:
            largest = max(mine, key=lambda query: mine[query])
            reason = f"of {total:.0f} in batch {batch} this query had {mine[largest]:.0f}"
            text = f'tenant "{tenant.name}" may have {limit} matches per batch (matches_per_batch): {reason}'
            self._set_aside(largest, text)
            self._strikes.pop(tenant.name, None)

    # ---- both

    def _of(self, tenant: Tenant, figures: Mapping[QueryId, float]) -> dict[QueryId, float]:
        core = self._host.engine.core
        with core.lock:
            live = core.roster.live
            return {q: figure for q, figure in figures.items() if q in live and tenant.sees(live[q].record.name)}

    def _set_aside(self, query: QueryId, reason: str) -> None:
        core = self._host.engine.core
        name = core.roster.name_of(query)
        _log.warning(f'query "{name}" is set aside: {reason}', extra={"query": name})
        core.set_aside(query, core.next_batch, reason)
