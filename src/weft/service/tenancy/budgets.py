"""Limits on what running queries use: bytes of state, and matches per batch.

A thread checks the limits every few seconds. A tenant that exceeds a limit has some time to drop queries itself;
then its largest query is set aside.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from weft.errors import EngineStopped, QuotaExceeded
from weft.plan.changelog import QueryId
from weft.service.host import Host
from weft.service.match_counts import Matches, matches_of
from weft.service.observer import Counted
from weft.service.tenancy.tenants import Tenant, Tenants

_log = logging.getLogger("weft.service")
LOOK_EVERY = 5.0
"""Seconds between two checks."""
STATE_GRACE = 60.0
"""Seconds that a tenant may exceed its limit of state."""
BATCHES_GRACE = 3
"""Consecutive batches with too many matches after which a query is set aside."""
FAR_BEYOND = 10
"""Multiple of the limit of matches at which a single batch is enough to set a query aside."""


class Budgets:
    """The limits of tenants, enforced on the running queries of an engine."""

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
        """Start the thread, if any tenant has a limit to check."""
        limited = (t.limits.state_bytes is not None or t.limits.matches_per_batch is not None for t in self._tenants)
        if any(limited):
            self._thread = threading.Thread(target=self._run, name="weft-budgets", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Tell the thread to end."""
        self._stop.set()

    def bytes_of(self, tenant: Tenant) -> float | None:
        """Return the bytes of state of a tenant's queries at the last check; None if they are not checked."""
        return self._bytes.get(tenant.name)

    def check(self, tenant: Tenant) -> None:
        """Raise QuotaExceeded if a tenant exceeds its limit of state."""
        limit, used = tenant.limits.state_bytes, self._bytes.get(tenant.name, 0.0)
        if limit is not None and used > limit:
            raise QuotaExceeded(
                f'tenant "{tenant.name}" may have {limit} bytes of state and has {used:.0f}',
                hint="Drop queries with long windows first.",
                retry_after=LOOK_EVERY,
            )

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY):
            try:
                self.look()
            except EngineStopped:  # the engine is starting or stopping
                continue
            except Exception as error:
                _log.error(f"limits of tenants were not looked after: {error}", exc_info=error)

    def look(self) -> None:
        """Check all limits once, and set queries aside where necessary."""
        if any(tenant.limits.state_bytes is not None for tenant in self._tenants):
            self._look_at_state()
        if any(tenant.limits.matches_per_batch is not None for tenant in self._tenants):
            for counted in self._host.observer.counted():
                if counted.batch > self._seen:
                    self._seen = counted.batch
                    self._look_at_matches(counted)

    # ---- state

    def _look_at_state(self) -> None:
        sizes, now = self._host.catalog.state_bytes(), self._clock()
        for tenant in self._tenants:
            own, limit = self._of(tenant, sizes), tenant.limits.state_bytes
            total = self._bytes[tenant.name] = sum(own.values())
            if limit is None or total <= limit:
                self._too_much_since.pop(tenant.name, None)
            elif now - self._too_much_since.setdefault(tenant.name, now) >= STATE_GRACE:
                largest = max(own, key=lambda query: own[query])
                reason = f"of {total:.0f} bytes of state this query needed {own[largest]:.0f}"
                self._set_aside(largest, f'tenant "{tenant.name}" may have {limit} (state_bytes): {reason}')
                self._too_much_since[tenant.name] = now

    # ---- matches

    def _look_at_matches(self, counted: Counted) -> None:
        matches: Matches | None = None
        for tenant in self._tenants:
            limit = tenant.limits.matches_per_batch
            if limit is None:
                continue
            matches = Matches.of(self._host.catalog, counted) if matches is None else matches
            own = matches_of(self._host.catalog, matches, tenant, limit)
            if own is not None:  # a batch without known counts is not held against a tenant
                self._judge(tenant, limit, own, counted.batch)

    def _judge(self, tenant: Tenant, limit: int, counts: Mapping[QueryId, float], batch: int) -> None:
        total = sum(counts.values())
        if total <= limit:
            self._strikes.pop(tenant.name, None)
            return
        strikes = self._strikes[tenant.name] = self._strikes.get(tenant.name, 0) + 1
        if strikes >= BATCHES_GRACE or total > FAR_BEYOND * limit:
            largest = max(counts, key=lambda query: counts[query])
            reason = f"of {total:.0f} in batch {batch} this query had {counts[largest]:.0f}"
            text = f'tenant "{tenant.name}" may have {limit} matches per batch (matches_per_batch): {reason}'
            self._set_aside(largest, text)
            self._strikes.pop(tenant.name, None)

    # ---- state and matches

    def _of(self, tenant: Tenant, figures: Mapping[QueryId, float]) -> dict[QueryId, float]:
        live = self._host.catalog.live_queries()
        return {q: figure for q, figure in figures.items() if q in live and tenant.sees(live[q].record.name)}

    def _set_aside(self, query: QueryId, reason: str) -> None:
        name = self._host.catalog.query_by_id(query).name
        _log.warning(f'query "{name}" is set aside: {reason}', extra={"query": name})
        self._host.catalog.set_aside(query, reason)
