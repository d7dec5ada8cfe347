"""Who asks, and what they see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.service_sample import make_service
from weft.errors import Forbidden, InvalidSetting, QueryError, QuotaExceeded, Unauthorized
from weft.service.config import Limits, to_config
from weft.service.service import QuerySpec
from weft.service.tenancy.tenants import EVERYBODY, Tenant, Tenants, read_tenants, require_admin

ADS, OPS = Tenant("ads", admin=False), Tenant("ops", admin=True)
TENANTS = Tenants({"ads": "token-of-ads", "ops": "token-of-ops"}, [ADS, OPS])


def test_a_token_says_who_it_is() -> None:
    assert TENANTS.authenticate("Bearer token-of-ads") is ADS
    assert TENANTS.authenticate("bearer  token-of-ops ") is OPS


@pytest.mark.parametrize("header", [None, "", "Bearer ", "Bearer token", "Basic token-of-ads", "token-of-ads"])
def test_everything_else_is_refused(header: str | None) -> None:
    with pytest.raises(Unauthorized):
        TENANTS.authenticate(header)


def test_without_tenants_everybody_may_do_everything() -> None:
    assert Tenants({}, []).authenticate(None) is EVERYBODY
    assert EVERYBODY.sees("anything")
    assert EVERYBODY.full("name") == "name"


def test_two_tenants_cannot_have_one_token() -> None:
    with pytest.raises(InvalidSetting):
        Tenants({"ads": "the-same", "ops": "the-same"}, [ADS, OPS])


def test_a_tenant_sees_its_own_queries_under_their_own_names() -> None:
    assert ADS.full("x") == "ads.x"
    assert ADS.sees("ads.x")
    assert ADS.local("ads.x") == "x"
    assert not ADS.sees("adsx")
    assert not ADS.sees("ops.x")
    assert OPS.sees("ads.x")
    assert OPS.local("ads.x") == "ads.x"


def test_queries_say_whose_they_are() -> None:
    assert TENANTS.owner("ads.x") == "ads"
    assert TENANTS.owner("x") == ""
    assert TENANTS.owner("unknown.x") == ""


def test_tokens_do_not_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's processes, in which everybody's queries run, would inherit them (N1)."""
    monkeypatch.setenv("ADS_TOKEN", "token-of-ads")
    value = {"engine": {"path": "state"}, "tenants": [{"name": "ads", "token_env": "ADS_TOKEN", "streams": ["a"]}]}
    tenants = read_tenants(to_config(value, "here"))
    assert "ADS_TOKEN" not in os.environ
    ads = tenants.authenticate("Bearer token-of-ads")
    assert ads.may_read("a")
    assert not ads.may_read("b")
    assert ads.granted({"a": 1, "b": 2}) == {"a": 1}


def test_ids_mean_nothing_to_others() -> None:
    one, two = Tenant("one", admin=False, key=b"1"), Tenant("two", admin=False, key=b"2")
    assert one.hidden("store:x") == one.hidden("store:x") != two.hidden("store:x")


def test_some_things_are_for_administrators() -> None:
    require_admin(OPS, "do this")
    with pytest.raises(Forbidden, match="only administrators may do this"):
        require_admin(ADS, "do this")


def test_texts_that_are_wrong_count_as_creates(tmp_path: Path) -> None:
    """Before, they cost nothing: a tenant could have any number of them checked by Spark."""
    tenant = Tenant("one", admin=False, limits=Limits(creates_per_minute=3))
    service, _ = make_service(tmp_path / "state", Tenants({"one": "token-of-one"}, [tenant]))
    for _ in range(3):
        with pytest.raises(QueryError):
            service.create(tenant, [QuerySpec("SELECT nothing FROM a")])
    with pytest.raises(QuotaExceeded, match="may create 3 queries per minute"):
        service.create(tenant, [QuerySpec("SELECT x FROM a")])
    with pytest.raises(QuotaExceeded):
        service.create(tenant, [QuerySpec("SELECT nothing FROM a")] * 2)
