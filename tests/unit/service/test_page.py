"""Pages of a long log: only batches that may hold rows are read, and never for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engine.sample import rows
from tests.unit.service.sample import Here, make_service
from weft.service.rows import Cursor, batches_with_rows
from weft.service.service import Service, Wanted
from weft.service.tenants import EVERYBODY

BATCHES = 6


@pytest.fixture
def made(tmp_path: Path) -> tuple[Service, Here]:
    """A query over `a`, whose rows are in every second batch; the others have rows of `b`."""
    service, host = make_service(tmp_path / "state")
    service.create(EVERYBODY, [Wanted("SELECT x FROM a", "q"), Wanted("SELECT x FROM b", "other")])
    for number in range(BATCHES):
        host.batch(**{"ba"[number % 2]: rows((number, 1, number))})
    return service, host


def test_batches_without_rows_are_not_read(made: tuple[Service, Here]) -> None:
    service, host = made
    query = service.query(EVERYBODY, "q")
    assert batches_with_rows(host.engine.core, query, Cursor(0)) == ([1, 3, 5], BATCHES)
    assert batches_with_rows(host.engine.core, query, Cursor(4)) == ([5], BATCHES)
    assert batches_with_rows(host.engine.core, query, Cursor(BATCHES)) == ([], BATCHES)


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
    monkeypatch.setattr("weft.service.service._PATIENCE", -1.0)
    every, cursor, more = list[str](), Cursor(0), True
    while more:
        page, found = service.page(EVERYBODY, "q", after=cursor, limit=100)
        assert len(found) == 1
        every, cursor, more = every + found, Cursor(int(page["cursor"])), page["more"]
    assert every == ["[1]", "[3]", "[5]"]
