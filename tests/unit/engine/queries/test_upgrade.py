"""Another release on the same state directory: nothing is lost silently, and one query does not hold up the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_sample import JOIN, open_core, rows
from tests.support.harness import CoreHarness
from weft.engine.queries import identity as engine_identity
from weft.errors import UnsupportedQuery
from weft.plan import expression, key
from weft.plan.query import BoundQuery
from weft.sql import bind

BY_EXPRESSION = JOIN.replace("p.k = q.k", "p.k + 1 = q.k + 1")


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    harness = open_core(tmp_path / "state")
    harness.create(BY_EXPRESSION, "join")
    harness.create("SELECT x FROM a", "plain")
    harness.batch({"a": [rows((0, 1, 10))], "b": [rows((0, 2, 0))]})
    return harness


def go_on(harness: CoreHarness) -> None:
    harness.reopen(2)
    harness.batch({"a": [rows((2, 7, 12))], "b": [rows((1, 1, 11))]})


def test_sql_that_is_written_otherwise_finds_its_rows(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the identity of stores: with other spacing, all rows of a join were freed at the next opening."""
    monkeypatch.setitem(expression._INFIX, "add", "  +  ")
    go_on(harness)
    assert harness.results("join") == [(10, 11)]


def test_a_query_that_a_release_refuses_has_failed_and_all_others_go_on(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(text: str, streams: object) -> BoundQuery:
        if "JOIN" in text:
            raise UnsupportedQuery("joins are out of fashion")
        return bind(text, streams)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(engine_identity, "bind", refuse)
        go_on(harness)
        assert harness.results("plain") == [(10,), (12,)]
    assert "joins are out of fashion" in caplog.text
    for _ in range(2):  # also when the release that took it is back, and after a checkpoint
        harness.reopen(1)
        record = harness._record("join")
        assert (record.ended, record.error) == (1, "joins are out of fashion.")
        assert "join" not in harness.core.roster.names
        assert harness.core.roster.slots == 0b10
        harness.core.checkpoint()
    harness.create(JOIN, "join")
    harness.batch({"a": [rows((3, 1, 1))], "b": [rows((3, 1, 2))]})
    assert harness.results("join") == [(1, 2)]


def test_a_query_whose_rows_have_other_names_now_has_failed_and_says_so(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = key.identity
    monkeypatch.setattr(key, "identity", lambda part: real(part).replace("+", "plus"))
    go_on(harness)
    record = harness._record("join")
    assert "names that this release of weft does not use" in record.error
    assert record.stores[0] in record.error
    assert harness.results("plain") == [(10,), (12,)]


def test_a_query_that_was_dropped_needs_no_release_to_take_it(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.drop("join")

    def refuse(text: str, streams: object) -> BoundQuery:
        raise UnsupportedQuery("nothing goes")

    monkeypatch.setattr(engine_identity, "bind", refuse)
    harness.reopen(1)
    assert harness._record("join").error == ""
    assert harness._record("plain").error == "nothing goes."
    assert harness.core.roster.live == {}
