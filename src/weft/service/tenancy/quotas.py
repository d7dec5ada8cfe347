"""Quotas of tenants: the number of live queries, and rates as token buckets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from weft.errors import QuotaExceeded
from weft.service.tenancy.tenants import Tenant

Clock = Callable[[], float]


class TokenBucket:
    """A token bucket, filled by `rate` tokens per second up to `size`. Its level may be negative."""

    def __init__(self, rate: float, size: float, clock: Clock) -> None:
        self._rate, self._size, self._clock = rate, size, clock
        self._level, self._at = size, clock()

    def take(self, amount: float) -> None:
        """Take `amount` tokens, even if the bucket has fewer."""
        self._fill()
        self._level -= amount

    def wait_for(self, amount: float) -> float:
        """Return the seconds until the bucket has `amount` tokens, or is full; 0 if it has them now."""
        self._fill()
        return max(0.0, (min(amount, self._size) - self._level) / self._rate)

    def _fill(self) -> None:
        now = self._clock()
        self._level = min(self._size, self._level + (now - self._at) * self._rate)
        self._at = now


@dataclass(frozen=True, slots=True)
class _Buckets:
    creates: TokenBucket | None
    rows: TokenBucket | None
    what_ifs: TokenBucket | None


class Quotas:
    """The quotas of all tenants; safe to call from any thread."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, _Buckets] = {}

    def create(self, tenant: Tenant, count: int, *, live: int) -> None:
        """Let a tenant with `live` queries try to create `count` more, or raise QuotaExceeded.

        An admitted attempt counts even if a text turns out to be wrong; a refused attempt does not count.
        """
        check_live(tenant, count, live=live)
        limits = tenant.limits
        bucket = self._of(tenant).creates
        if bucket is None:
            return
        with self._lock:
            wait = bucket.wait_for(count)
            too_many = count > (limits.creates_per_minute or count)
            if wait > 0 or too_many:
                raise QuotaExceeded(
                    f'tenant "{tenant.name}" may create {limits.creates_per_minute} queries per minute',
                    hint="Create fewer queries at once." if too_many else f"Try again in {max(wait, 1):.0f} s.",
                    retry_after=wait,
                )
            bucket.take(count)

    def what_if(self, tenant: Tenant) -> None:
        """Let a tenant validate a text or ask what it would add, or raise QuotaExceeded."""
        bucket = self._of(tenant).what_ifs
        if bucket is None:
            return
        with self._lock:
            wait = bucket.wait_for(1)
            if wait > 0:
                raise QuotaExceeded(
                    f'tenant "{tenant.name}" may ask {tenant.limits.what_if_per_minute} times per minute',
                    detail="Requests to validate a text count, and those that ask what it would add.",
                    hint=f"Try again in {max(wait, 1):.0f} s.",
                    retry_after=wait,
                )
            bucket.take(1)

    def wait_for_rows(self, tenant: Tenant) -> float:
        """Return the seconds until a tenant may read result rows again."""
        bucket = self._of(tenant).rows
        if bucket is None:
            return 0.0
        with self._lock:
            return bucket.wait_for(1)

    def give_rows(self, tenant: Tenant, count: int) -> None:
        """Count rows that a tenant was given. Rows above the quota delay the next ones."""
        bucket = self._of(tenant).rows
        if bucket is not None:
            with self._lock:
                bucket.take(count)

    def check_rows(self, tenant: Tenant) -> None:
        """Raise QuotaExceeded if a tenant has used up its result rows for now."""
        if (wait := self.wait_for_rows(tenant)) > 0:
            raise QuotaExceeded(throttled(tenant), hint=f"Try again in {max(wait, 1):.0f} s.", retry_after=wait)

    def _of(self, tenant: Tenant) -> _Buckets:
        with self._lock:
            if tenant.name not in self._buckets:
                limits = tenant.limits
                self._buckets[tenant.name] = _Buckets(
                    self._per_minute(limits.creates_per_minute),
                    None if (rows := limits.result_rows_per_second) is None else TokenBucket(rows, rows, self._clock),
                    self._per_minute(limits.what_if_per_minute),
                )
            return self._buckets[tenant.name]

    def _per_minute(self, count: int | None) -> TokenBucket | None:
        return None if count is None else TokenBucket(count / 60, count, self._clock)


def check_live(tenant: Tenant, count: int, *, live: int) -> None:
    """Raise QuotaExceeded if a tenant with `live` queries may not have `count` more."""
    limit = tenant.limits.live_queries
    if limit is not None and live + count > limit:
        raise QuotaExceeded(
            f'tenant "{tenant.name}" may have {limit} live queries and has {live}', hint="Drop some first."
        )


def throttled(tenant: Tenant) -> str:
    """Return the message for a tenant that has used up its result rows for now."""
    return f'tenant "{tenant.name}" may read {tenant.limits.result_rows_per_second} result rows per second'
