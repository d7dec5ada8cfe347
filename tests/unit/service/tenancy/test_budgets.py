"""Limits of what running queries take: there is a while, then the largest is set aside, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_sample import rows
from tests.support.service_sample import Here, make_service
from weft.errors import QuotaExceeded
from weft.service.config import Limits
from weft.service.match_counts import Matches, matches_of
from weft.service.observer import Counted
from weft.service.service import QuerySpec, Service
from weft.service.tenancy.budgets import BATCHES_GRACE, FAR_BEYOND, STATE_GRACE, Budgets
from weft.service.tenancy.tenants import Tenant, Tenants

JOIN = "SELECT p.x FROM a [RANGE 1 HOUR] p JOIN b [RANGE 1 HOUR] q ON p.k = q.k"
SMALL, LARGE = JOIN.replace("1 HOUR", "1 SECOND"), JOIN


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make(path: Path, limits: Limits) -> tuple[Service, Here, Budgets, Clock, Tenant]:
    tenant, other = Tenant("one", admin=False, limits=limits), Tenant("other", admin=False)
    tenants = Tenants({"one": "token-of-one", "other": "token-of-other"}, [tenant, other])
    service, host = make_service(path, tenants)
    clock = Clock()
    service.budgets = Budgets(host, tenants, clock)
    return service, host, service.budgets, clock, tenant


def feed(host: Here, batches: int) -> None:
    core = host.catalog.core
    for _ in range(batches):
        second = core.next_batch
        host.batch(a=rows((second, 1, 5)), b=rows((second, 1, 6)))
        host.observer._take(core.inventory.results_of(second), {})


def test_too_much_state_ends_the_query_that_needs_most(tmp_path: Path) -> None:
    service, host, budgets, clock, tenant = make(tmp_path / "state", Limits(state_bytes=1000))
    service.create(tenant, [QuerySpec(SMALL, "small"), QuerySpec(LARGE, "large")])
    other = Tenant("other", admin=False)
    service.create(other, [QuerySpec("SELECT k, COUNT(*) AS n FROM a [TUMBLE 1 HOUR] GROUP BY k", "theirs")])
    feed(host, 20)
    budgets.look()
    assert (budgets.bytes_of(tenant) or 0) > 1000
    with pytest.raises(QuotaExceeded, match="may have 1000 bytes of state"):
        service.create(tenant, [QuerySpec("SELECT x FROM a", "more")])
    service.create(other, [QuerySpec("SELECT x FROM a", "more")])
    assert service.query(tenant, "large").state == "live", "it has a while"
    clock.now += STATE_GRACE
    budgets.look()
    ended = service.query(tenant, "large")
    assert ended.state == "failed"
    assert "state_bytes" in ended.error
    assert "1000" in ended.error
    assert service.query(tenant, "small").state == "live"
    assert service.query(other, "theirs").state == "live"


def test_state_that_shrinks_again_is_forgiven(tmp_path: Path) -> None:
    service, host, budgets, clock, tenant = make(tmp_path / "state", Limits(state_bytes=1000))
    service.create(tenant, [QuerySpec(LARGE, "large")])
    feed(host, 20)
    budgets.look()
    service.drop(tenant, "large")
    feed(host, 1)
    clock.now += STATE_GRACE
    budgets.look()
    service.create(tenant, [QuerySpec("SELECT x FROM a", "more")])


def test_too_many_matches_end_the_query_that_has_most(tmp_path: Path) -> None:
    service, host, budgets, _, tenant = make(tmp_path / "state", Limits(matches_per_batch=10))
    service.create(tenant, [QuerySpec("SELECT x FROM a", "few"), QuerySpec(LARGE, "many")])
    feed(host, 6)
    budgets.look()
    assert service.query(tenant, "many").state == "live"
    feed(host, BATCHES_GRACE)
    budgets.look()
    ended = service.query(tenant, "many")
    assert ended.state == "failed"
    assert "10 matches per batch" in ended.error
    assert service.query(tenant, "few").state == "live"
    feed(host, BATCHES_GRACE)
    budgets.look()
    assert service.query(tenant, "few").state == "live"


def test_far_too_many_are_not_waited_for_again(tmp_path: Path) -> None:
    service, host, budgets, _, tenant = make(tmp_path / "state", Limits(matches_per_batch=1))
    query = service.create(tenant, [QuerySpec(LARGE, "many")])[0]
    feed(host, 1)
    host.observer._counted.append(Counted(1, {query.id: FAR_BEYOND + 1}, {}))
    budgets.look()
    assert service.query(tenant, "many").state == "failed"


def uncounted(host: Here, batch: int) -> Counted:
    """A batch whose rows the observer did not count, because there were too many."""
    (counted,) = (each for each in host.observer.counted() if each.batch == batch)
    return Counted(batch, dict.fromkeys(counted.queries), {**counted.through, "join:huge": 1 << 30})


def test_what_was_not_counted_is_a_share_among_queries_of_one_tenant(tmp_path: Path) -> None:
    service, host, _, _, tenant = make(tmp_path / "state", Limits(matches_per_batch=1000))
    mine = service.create(tenant, [QuerySpec(LARGE, "many"), QuerySpec(LARGE, "same")])
    join = next(each.id for each in host.catalog.core.plan.joins)
    counted = Counted(0, {mine[0].id: None, mine[1].id: 7}, {f"join:{join}": 100})
    matches = Matches.of(host.catalog, counted)
    assert matches_of(host.catalog, matches, tenant, 1000) == {
        mine[0].id: 50.0,
        mine[1].id: 7.0,
    }


def test_nobody_pays_for_what_others_match(tmp_path: Path) -> None:
    """Before, a query without a match was set aside, since another tenant's made its join's rows too many to count."""
    service, host, budgets, _, tenant = make(tmp_path / "state", Limits(matches_per_batch=3))
    none = service.create(tenant, [QuerySpec(f"{LARGE} WHERE p.x > 1000", "none"), QuerySpec("SELECT x FROM a", "few")])
    service.create(Tenant("other", admin=False), [QuerySpec(LARGE, "many")])
    for _ in range(10):
        feed(host, 1)
        batch = host.catalog.core.next_batch - 1
        counted = uncounted(host, batch)
        budgets._look_at_matches(counted)
    assert sum(counted.through.values()) > 2 * FAR_BEYOND
    assert [query.state for query in none] == ["live", "live"]


def test_own_matches_are_counted_where_an_operator_is_shared(tmp_path: Path) -> None:
    service, host, budgets, _, tenant = make(tmp_path / "state", Limits(matches_per_batch=5))
    mine = service.create(tenant, [QuerySpec(LARGE, "many"), QuerySpec(f"{LARGE} WHERE p.x > 1000", "none")])
    service.create(Tenant("other", admin=False), [QuerySpec(LARGE, "many")])
    for _ in range(4 + BATCHES_GRACE):
        feed(host, 1)
        budgets._look_at_matches(uncounted(host, host.catalog.core.next_batch - 1))
    assert [query.state for query in mine] == ["failed", "live"]


def test_what_is_not_kept_is_held_against_nobody(tmp_path: Path) -> None:
    service, host, budgets, _, tenant = make(tmp_path / "state", Limits(matches_per_batch=1))
    mine = service.create(tenant, [QuerySpec(LARGE, "many")])[0]
    service.create(Tenant("other", admin=False), [QuerySpec(LARGE, "many")])
    join = next(each.id for each in host.catalog.core.plan.joins)
    budgets._look_at_matches(Counted(99, {mine.id: None}, {f"join:{join}": 1000}))
    assert mine.state == "live"


def test_nobody_is_watched_without_limits(tmp_path: Path) -> None:
    *_, budgets, _, _ = make(tmp_path / "state", Limits())
    budgets.start()
    assert budgets._thread is None
