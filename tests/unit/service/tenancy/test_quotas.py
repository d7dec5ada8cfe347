"""Quotas by a clock that the test turns."""

from __future__ import annotations

import pytest

from weft.errors import QuotaExceeded
from weft.service.config import Limits
from weft.service.tenancy.quotas import Quotas
from weft.service.tenancy.tenants import Tenant


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def tenant(**limits: int) -> Tenant:
    return Tenant("t", admin=False, limits=Limits(**limits))


def test_live_queries_are_limited() -> None:
    quotas = Quotas()
    quotas.create(tenant(live_queries=3), 2, live=1)
    with pytest.raises(QuotaExceeded, match="may have 3 live queries and has 2"):
        quotas.create(tenant(live_queries=3), 2, live=2)


def test_creates_come_back_with_time() -> None:
    clock = Clock()
    quotas, limited = Quotas(clock), tenant(creates_per_minute=6)
    quotas.create(limited, 6, live=0)
    with pytest.raises(QuotaExceeded) as error:
        quotas.create(limited, 1, live=6)
    assert error.value.retry_after == pytest.approx(10)
    clock.now += 10
    quotas.create(limited, 1, live=6)


def test_more_at_once_than_a_minute_gives_is_never_possible() -> None:
    with pytest.raises(QuotaExceeded) as refused:
        Quotas(Clock()).create(tenant(creates_per_minute=6), 7, live=0)
    assert refused.value.hint == "Create fewer queries at once."


def test_a_refused_create_costs_nothing() -> None:
    quotas, limited = Quotas(Clock()), tenant(creates_per_minute=6)
    quotas.create(limited, 4, live=0)
    with pytest.raises(QuotaExceeded):
        quotas.create(limited, 3, live=4)
    quotas.create(limited, 2, live=4)


def test_rows_beyond_the_quota_are_waited_off() -> None:
    clock = Clock()
    quotas, limited = Quotas(clock), tenant(result_rows_per_second=10)
    quotas.check_rows(limited)
    quotas.give_rows(limited, 30)
    with pytest.raises(QuotaExceeded, match="10 result rows per second"):
        quotas.check_rows(limited)
    assert quotas.wait_for_rows(limited) == pytest.approx(2.1)
    clock.now += 2.2
    quotas.check_rows(limited)


def test_without_limits_there_are_none() -> None:
    quotas = Quotas(Clock())
    quotas.create(tenant(), 10**6, live=10**6)
    quotas.give_rows(tenant(), 10**9)
    assert quotas.wait_for_rows(tenant()) == 0
