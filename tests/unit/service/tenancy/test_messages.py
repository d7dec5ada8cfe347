"""A tenant is told why its queries fail, but not where files of the machine are; an administrator is told all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.engine_sample import rows
from tests.support.service_sample import make_service
from weft.engine import Query
from weft.service.events.rows import Cursor
from weft.service.service import QuerySpec
from weft.service.tenancy.messages import query_error, sink_error
from weft.service.tenancy.tenants import EVERYBODY, Tenant, Tenants

ADS = Tenant("ads", admin=False)
MORE = "An administrator can see more."


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("", ""),
        ("[DIVIDE_BY_ZERO] Division by zero. 10 / 0, a/b", "[DIVIDE_BY_ZERO] Division by zero. 10 / 0, a/b"),
        ("cannot open '/srv/weft/state/data/1.arrow'", "cannot open '(a path)'"),
        ("cannot open file:/srv/weft/x.arrow: gone", "cannot open (a path): gone"),
        (
            "it makes the batch fail: pyarrow.lib.ArrowInvalid: Could not open '/srv/weft/state/1.arrow'",
            f"it makes the batch fail (ArrowInvalid). {MORE}",
        ),
        (
            "it makes the batch fail: [Errno 13] Permission denied: '/srv/weft/state'",
            f"it makes the batch fail (Permission denied). {MORE}",
        ),
        (
            "it makes the batch fail: file /srv/x is damaged [state_corrupt]",
            f"it makes the batch fail (state_corrupt). {MORE}",
        ),
        ("it makes the batch fail: no idea, in /srv/weft/x", f"it makes the batch fail. {MORE}"),
    ],
)
def test_paths_are_for_administrators(error: str, told: str) -> None:
    assert query_error(ADS, error) == told
    assert query_error(EVERYBODY, error) == error


@pytest.mark.parametrize(
    ("state", "error", "told"),
    [
        ("delivering", "", ""),
        (
            "retrying",
            "[Errno 13] Permission denied: '/srv/out/ads'",
            f"its rows could not be written (Permission denied); it is tried again. {MORE}",
        ),
        ("retrying", "/srv/out/ads", f"its rows could not be written; it is tried again. {MORE}"),
        (
            "failed",
            "results of batches 1 to 3 are not kept any more",
            "results of batches 1 to 3 are not kept any more",
        ),
        ("failed", "too far behind: '/srv/out/ads'", "too far behind: '(a path)'"),
    ],
)
def test_what_a_sink_says_is_for_administrators(state: str, error: str, told: str) -> None:
    query = cast(Query, SimpleNamespace(sink_state=state, sink_error=error))
    assert sink_error(ADS, query) == told
    assert sink_error(EVERYBODY, query) == error


def test_every_answer_about_a_query_that_failed(tmp_path: Path) -> None:
    """Before, tenants were shown where the state directory is."""
    tenants = Tenants({"ads": "token-of-ads"}, [ADS])
    service, host = make_service(tmp_path / "state", tenants)
    query = service.create(ADS, [QuerySpec("SELECT x FROM a", "q")])[0]
    host.batch(a=rows((0, 1, 5)))
    reason = f"it makes the batch fail: FileNotFoundError: {tmp_path}/state/data/1.arrow"
    host.catalog.core.set_aside(query.id, host.catalog.core.next_batch, reason)
    host.catalog.deliveries.error_of = lambda _: f"[Errno 28] No space left on device: '{tmp_path}/out'"  # type: ignore[method-assign]
    host.catalog.deliveries.state_of = lambda _: "retrying"  # type: ignore[method-assign]

    def answers(tenant: Tenant) -> list[Any]:
        views = service.views(tenant)
        name = tenant.local(query.name)
        page, _ = service.page(tenant, name, after=Cursor(0), limit=10)
        return [views.query(query), views.tick("running", "", [query])["queries"], page]

    for answer in answers(ADS):
        assert str(tmp_path) not in str(answer)
        assert "it makes the batch fail (FileNotFoundError)" in str(answer)
    for answer in answers(EVERYBODY):
        assert reason in str(answer)
