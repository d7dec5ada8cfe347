"""Pages of a long log: only batches that may hold rows are read, and never for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_sample import WINDOW, rows
from tests.support.service_sample import Here, make_service
from weft.engine import Query
from weft.errors import QueryFailed, ResultsGone
from weft.execution.results.chunk import Found
from weft.service.events.rows import Cursor, Rows, batches_with_rows, parse_cursor
from weft.service.service import QuerySpec, Service
from weft.service.tenancy.tenants import EVERYBODY, Tenant

BATCHES = 6


@pytest.fixture
def made(tmp_path: Path) -> tuple[Service, Here]:
    """A query over `a`, whose rows are in every second batch; the others have rows of `b`."""
    service, host = make_service(tmp_path / "state")
    service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q"), QuerySpec("SELECT x FROM b", "other")])
    for number in range(BATCHES):
        host.batch(**{"ba"[number % 2]: rows((number, 1, number))})
    return service, host


def test_batches_without_rows_are_not_read(made: tuple[Service, Here]) -> None:
    service, host = made
    query = service.query(EVERYBODY, "q")
    assert batches_with_rows(host.catalog, query, Cursor(0)) == ([1, 3, 5], BATCHES, False)
    assert batches_with_rows(host.catalog, query, Cursor(4)) == ([5], BATCHES, False)
    assert batches_with_rows(host.catalog, query, Cursor(BATCHES)) == ([], BATCHES, False)


def test_a_long_log_is_looked_at_a_stretch_after_the_other(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, host = made
    query = service.query(EVERYBODY, "q")
    monkeypatch.setattr("weft.service.result_pages.LOOK_AHEAD", 2)
    assert batches_with_rows(host.catalog, query, Cursor(0), 2) == ([1], 2, True)
    assert batches_with_rows(host.catalog, query, Cursor(4), 2) == ([5], BATCHES, False)
    page, found = service.page(EVERYBODY, "q", after=Cursor(0), limit=100)
    assert (found, page["cursor"], page["more"]) == (["[1]", "[3]", "[5]"], str(BATCHES), False)


def test_a_page_looks_no_farther_than_it_has_to(made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, a page of one row looked at a thousand manifests before it read that row."""
    service, host = made
    for number in range(BATCHES, 40):
        host.batch(b=rows((number, 1, number)))
    looks: list[tuple[int, int]] = []
    batches = Query.batches

    def look(query: Query, first: int, last: int) -> list[int]:
        looks.append((first, last))
        return batches(query, first, last)

    monkeypatch.setattr(Query, "batches", look)
    assert service.page(EVERYBODY, "q", after=Cursor(0), limit=1)[1] == ["[1]"]
    assert looks == [(0, 16)]
    looks.clear()
    page, found = service.page(EVERYBODY, "q", after=Cursor(5), limit=100)
    assert (found, page["cursor"], page["more"]) == (["[5]"], "40", False)
    assert looks == [(5, 21), (21, 40)]


def test_a_page_goes_over_batches_without_rows(made: tuple[Service, Here]) -> None:
    service, _ = made
    page, found = service.page(EVERYBODY, "q", after=Cursor(0), limit=2)
    assert (found, page["cursor"], page["more"]) == (["[1]", "[3]"], "4", True)
    page, found = service.page(EVERYBODY, "q", after=Cursor(4), limit=2)
    assert (found, page["cursor"], page["more"]) == (["[5]"], str(BATCHES), False)


def test_a_page_that_takes_too_long_ends_and_says_so(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = made
    monkeypatch.setattr("weft.service.result_pages._PATIENCE", -1.0)
    every, cursor, more = list[str](), Cursor(0), True
    while more:
        page, found = service.page(EVERYBODY, "q", after=cursor, limit=100)
        assert len(found) == 1
        every, cursor, more = every + found, Cursor(int(page["cursor"])), page["more"]
    assert every == ["[1]", "[3]", "[5]"]


def test_batches_that_go_while_they_are_looked_for_are_not_skipped(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a page from the beginning had the last row only, and nothing said that others were gone."""
    service, host = made
    look = Query.batches

    def trim_first(query: Query, first: int, last: int) -> list[int]:
        host.catalog.core.trim_results(4)
        return look(query, first, last)

    monkeypatch.setattr(Query, "batches", trim_first)
    with pytest.raises(ResultsGone, match='rows of query "q" before batch 4 are not kept') as gone:
        service.page(EVERYBODY, "q", after=Cursor(0), limit=100)
    assert "Read on from cursor 4" in gone.value.hint
    assert service.page(EVERYBODY, "q", after=Cursor(4), limit=100)[1] == ["[5]"]


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Service, Here]:
    """A self-join of 400 equal keys: 160,000 rows of one batch."""
    service, host = make_service(tmp_path / "state")
    service.create(
        EVERYBODY, [QuerySpec(f"SELECT p.x, q.x AS y FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.k", "q")]
    )
    host.batch(a=rows(*((0, 1, number) for number in range(400))))
    return service, host


@pytest.mark.parametrize("skip", [0, 1, 150_000])
def test_a_page_costs_what_it_holds(pairs: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch, skip: int) -> None:
    """Before, all 160,000 rows were built and written as JSON for one of them."""
    built: list[int] = []
    build = Found.build
    monkeypatch.setattr(
        Found, "build", lambda self, first, last: (built.append(last - first), build(self, first, last))[1]
    )
    page, found = pairs[0].page(EVERYBODY, "q", after=Cursor(0, skip), limit=1)
    assert (len(found), page["cursor"], page["more"]) == (1, f"0.{skip + 1}", True)
    assert sum(built) == 2, "one more is looked for, to know whether the batch ends"


def test_pages_are_the_whole_batch_in_order(pairs: tuple[Service, Here]) -> None:
    service, _ = pairs
    every = list[str]()
    cursor, more = Cursor(0), True
    while more:
        page, found = service.page(EVERYBODY, "q", after=cursor, limit=10_000)
        every, cursor, more = every + found, parse_cursor(page["cursor"]), page["more"]
    assert (len(every), len(set(every)), str(cursor)) == (160_000, 160_000, "1")


def test_rows_before_one_that_fails_are_a_page_and_then_it_is_said(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = made
    read = service.reader.rows

    def fails(query: Query, at: Cursor, most: int) -> Rows:
        if at.batch == 3:
            raise QueryFailed('query "q" failed', detail="by zero")
        return read(query, at, most)

    monkeypatch.setattr(service.reader, "rows", fails)
    page, found = service.page(EVERYBODY, "q", after=Cursor(0), limit=100)
    assert (found, page["cursor"], page["more"]) == (["[1]"], "3", False)
    assert (page["state"], page["error"]) == ("failed", "by zero")
    page, found = service.page(EVERYBODY, "q", after=parse_cursor(page["cursor"]), limit=100)
    assert (found, page["state"], page["error"]) == ([], "failed", "by zero")


# ---- lists of queries


def test_ended_queries_come_page_by_page(tmp_path: Path) -> None:
    ads, ops = Tenant("ads", admin=False), Tenant("ops", admin=True)
    service, host = make_service(tmp_path / "state")
    for number in range(7):
        service.create(ads, [QuerySpec("SELECT x FROM a", f"n{number}")])
        if number != 3:
            service.drop(ads, f"n{number}")
        if number == 4:
            host.batch()
            host.catalog.core.checkpoint()
    service.create(ops, [QuerySpec("SELECT x FROM a", "mine")])

    def names(tenant: Tenant, state: str, **page: int) -> list[str]:
        return [query.name for query in service.queries(tenant, state, **page)]

    assert names(ads, "live") == ["ads.n3"]
    assert names(ads, "ended", limit=2) == ["ads.n0", "ads.n1"]
    assert names(ads, "ended", limit=9, after=2) == ["ads.n2", "ads.n4", "ads.n5", "ads.n6"]
    assert names(ops, "all", limit=3, after=3) == ["ads.n3", "ads.n4", "ads.n5"]
    assert names(ops, "all", after=6) == ["ads.n6", "mine"]
    assert names(ops, "all", limit=3, latest=True) == ["ads.n5", "ads.n6", "mine"]
    assert names(ads, "ended", limit=4, latest=True) == ["ads.n2", "ads.n4", "ads.n5", "ads.n6"]
    assert names(ops, "live", latest=True) == ["ads.n3", "mine"]
    assert service.create(ads, [QuerySpec("SELECT x FROM a")])[0].name == "ads.q1"


def test_failed_queries_are_counted_without_looking_at_all(tmp_path: Path) -> None:
    service, host = make_service(tmp_path / "state")
    core = host.catalog.core
    for number in range(3):
        query = service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", f"n{number}")])[0]
        core.set_aside(query.id, 0, "by zero")
        host.batch()
        core.checkpoint()
        assert service.views(EVERYBODY).summary("running", "")["failed"] == number + 1
