"""Ended queries: on disk, found by id and name, page by page; memory and checkpoints do not grow with them."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_sample import STREAMS, open_core, rows, run_batch
from tests.support.harness import CoreHarness
from weft.engine.catalog import Catalog
from weft.engine.core import Core
from weft.engine.queries import records
from weft.engine.query import Query
from weft.errors import StateCorrupt, StateUnavailable, UnknownQuery
from weft.plan.changelog import QueryId, QueryRecord
from weft.sql import bind
from weft.storage import ended_queries as disk
from weft.storage.directory import Directory
from weft.storage.ended_queries import EndedQueries, is_id


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state")


def record(number: int, name: str, *, ended: int = 1, error: str = "") -> QueryRecord:
    return QueryRecord(QueryId(f"q{number}"), name, "SELECT x FROM a", 0, 0, None, (0,), ended=ended, error=error)


@pytest.fixture
def ended(tmp_path: Path) -> EndedQueries:
    return EndedQueries(Directory(tmp_path, -1))


# ---- the file


def test_records_come_back_by_id_and_name(ended: EndedQueries) -> None:
    ended.put([record(1, "n"), record(2, "m", error="by zero"), record(10, "n")])
    assert ended.get(QueryId("q2")) == record(2, "m", error="by zero")
    assert ended.get(QueryId("q3")) is None
    assert ended.latest("n") == record(10, "n")
    assert ended.latest("other") is None
    assert len(ended) == 3


def test_looking_makes_no_file(ended: EndedQueries, tmp_path: Path) -> None:
    assert (ended.get(QueryId("q1")), len(ended), ended.failed(""), ended.last_turn) == (None, 0, 0, 0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_again_replaces_what_was_there(ended: EndedQueries) -> None:
    ended.put([record(1, "n", ended=9)], delivered=True)
    assert ended.get(QueryId("q1")) == record(1, "n", ended=9)
    ended.put([record(1, "n", ended=5, error="by zero")])
    assert ended.get(QueryId("q1")) == record(1, "n", ended=5, error="by zero")
    assert ended.was_delivered(QueryId("q1"))
    assert not ended.was_delivered(QueryId("q2"))
    assert len(ended) == 1


def test_pages_are_of_one_tenant_and_in_order(ended: EndedQueries) -> None:
    ended.put([record(n, f"{'ads' if n % 2 else 'ads2'}.q{n}") for n in (9, 3, 4, 11, 10, 1)])
    assert [each.id for each in ended.page("ads.", after=0, limit=2)] == ["q1", "q3"]
    assert [each.id for each in ended.page("ads.", after=3, limit=9)] == ["q9", "q11"]
    assert [each.id for each in ended.page("", after=3, limit=9)] == ["q4", "q9", "q10", "q11"]
    assert sorted(ended.names("ads2.")) == ["ads2.q10", "ads2.q4"]


def test_failures_are_counted_per_tenant(ended: EndedQueries) -> None:
    ended.put([record(1, "ads.a", error="x"), record(2, "ads.b"), record(3, "adsx.c", error="y")])
    assert (ended.failed("ads."), ended.failed(""), ended.failed("no.")) == (1, 2, 0)
    ended.put([record(4, "ads.d", error="x")])
    assert (ended.failed("ads."), ended.failed("")) == (2, 3)


def test_records_go_with_their_results_but_for_the_last(ended: EndedQueries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "KEPT_AT_LEAST", 2)
    ended.put([record(n, f"n{n}", ended=n) for n in range(1, 8)])
    ended.forget(before=4)
    assert [each.id for each in ended.page("", after=0, limit=9)] == ["q5", "q6", "q7"]
    ended.forget(before=100)
    assert [each.id for each in ended.page("", after=0, limit=9)] == ["q6", "q7"]


def test_a_damaged_file_is_said_to_be(ended: EndedQueries, tmp_path: Path) -> None:
    ended.put([record(1, "n")])
    (tmp_path / "ended.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(StateCorrupt, match=r'"ended\.sqlite" cannot be read'):
        ended.get(QueryId("q2"))


def all_of(ended: EndedQueries) -> list[object]:
    """Everything that can be asked."""
    found: list[object] = [ended.page("", after=0, limit=100), ended.last_turn, len(ended)]
    found += [sorted(ended.names("n")), ended.failed(""), ended.failed("n1")]
    for number in range(1, 21):
        found += [ended.get(QueryId(f"q{number}")), ended.was_delivered(QueryId(f"q{number}"))]
        found += [ended.latest(f"n{number % 7}")]
    return found


@pytest.mark.parametrize("number", [sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR | 2 << 8])
def test_a_file_that_cannot_be_used_now_is_not_said_to_be_damaged(
    ended: EndedQueries, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_: object) -> None:
        error = sqlite3.OperationalError("not now")
        error.sqlite_errorcode, error.sqlite_errorname = number, "SQLITE_X"
        raise error

    monkeypatch.setattr(disk.sqlite3, "connect", refuse)
    with pytest.raises(StateUnavailable, match="cannot be used now"):
        ended.names("")


def test_a_flipped_bit_is_said_or_does_no_harm(ended: EndedQueries, tmp_path: Path) -> None:
    """Names, texts, times: whatever is read is what was written."""
    for number in range(1, 21):
        text = "by zero" if number % 5 == 0 else ""
        ended.put([record(number, f"n{number % 7}", ended=number, error=text)], delivered=number % 3 == 0)
    expected, path, draw = all_of(ended), tmp_path / "ended.sqlite", random.Random(7)
    whole = path.read_bytes()
    used = [at for at, byte in enumerate(whole) if byte]  # most of a page is free
    said = []
    for _ in range(400):
        at = draw.choice(used)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :])
        try:
            found = all_of(EndedQueries(Directory(tmp_path, -1)))
        except StateCorrupt as error:
            said.append(str(error))
        else:
            assert found == expected, at
    assert len(said) > 300
    assert all("ended.sqlite" in text for text in said)


def test_the_last_turn_stays_when_the_last_record_goes(ended: EndedQueries) -> None:
    """Otherwise a crash before the next checkpoint would look like a file that is older than the last one."""
    ended.put([record(1, "n"), record(2, "m")])
    ended.remove([QueryId("q2")])
    assert ended.last_turn == 2


@pytest.mark.parametrize("text", ["", "q", "q-1", "q1x", "x1", "q" + "9" * 40, "q١"])
def test_what_is_no_id_is_known_not_to_be(text: str, harness: CoreHarness) -> None:
    assert not is_id(text)
    assert QueryId(text) not in harness.core.roster.records


# ---- in an engine


def test_an_unknown_id_is_an_unknown_query(harness: CoreHarness) -> None:
    for text in ("q77", "nonsense"):
        with pytest.raises(UnknownQuery, match="does not exist"):
            Catalog(harness.core).query_by_id(QueryId(text))


def churn(core: Core, queries: int, *, at_once: int = 50) -> None:
    """Create queries and drop them again, some with each batch."""
    bound = bind("SELECT x FROM a WHERE x > 3", STREAMS)
    for _ in range(queries // at_once):
        made = core.submit(create=[(None, bound)] * at_once).created
        core.submit(drop=[query for query, _, _ in made])
        run_batch(core, {})


def sizes(core: Core) -> dict[str, int]:
    """What there is in memory and in the checkpoint."""
    roster = core.roster
    core.trim_results(core.next_batch)  # the checkpoint names the packs of results that are kept
    core.checkpoint()
    (path,) = core.directory.path("checkpoints").glob("*.json")
    return {
        "lately": len(roster.records.lately),
        "bound": len(roster.bound),
        "names": len(roster.names),
        "live": len(roster.live),
        "read": len(roster.ended._read),
        "stores": len(core.inventory._stores),
        "pickled": len(json.dumps(roster.to_json())),
        "checkpoint": path.stat().st_size,
    }


def test_thousands_that_came_and_went_leave_memory_and_checkpoints_as_they_were(harness: CoreHarness) -> None:
    core = harness.core
    harness.create("SELECT x FROM a", "stays")
    churn(core, 1000)
    before = sizes(core)
    churn(core, 20_000)
    after = sizes(core)
    assert {name: after[name] <= before[name] * 1.05 + 64 for name in after} == dict.fromkeys(after, True), after
    assert len(core.roster.latencies) <= 10_000
    assert len(core.roster.ended) >= 10_000
    harness.reopen(2)
    again = sizes(harness.core)
    assert again["lately"] == 0
    assert set(harness.core.roster.live) == {harness.core.roster.find("stays")}
    assert again["checkpoint"] <= before["checkpoint"] * 1.05 + 64


def test_memory_is_bounded_between_checkpoints_too(harness: CoreHarness) -> None:
    core = harness.core
    bound = bind("SELECT x FROM a", STREAMS)
    for _ in range(30):
        made = core.submit(create=[(None, bound)] * 50).created
        core.submit(drop=[query for query, _, _ in made])
        assert len(core.roster.records.lately) <= 1000
        assert len(core.roster.bound) <= records._BOUND_LATELY + 50
    assert len(core.roster.records) == 1500


def test_a_checkpoint_forgets_records_though_nothing_has_ended_since_they_were_written(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A soak of 100,000 queries found it: records were written just before each checkpoint, and never forgotten."""
    monkeypatch.setattr(disk, "KEPT_AT_LEAST", 10)
    core = harness.core
    churn(core, 100)
    core.roster.records.settle(core.lock)  # as when a thousand have ended between two checkpoints
    core.trim_results(core.next_batch)
    core.checkpoint()
    assert len(core.roster.ended) == 10


def ended_queries(harness: CoreHarness) -> dict[str, Any]:
    roster = harness.core.roster
    return {each.id: each for each in roster.records.values() if each.ended is not None}


def test_ended_queries_survive_checkpoints_and_restarts(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "n")
    harness.batch({"a": [rows((0, 1, 5))]})
    harness.drop("n")
    harness.create("SELECT x + 0 AS y FROM a", "n")
    harness.drop("n")
    harness.create("SELECT x FROM a", "m")
    before = ended_queries(harness)
    assert len(before) == 2
    for step in (harness.core.checkpoint, lambda: harness.reopen(2), lambda: harness.reopen(1)):
        step()
        assert ended_queries(harness) == before
        assert harness.core.roster.find("n") == "q2"
        assert harness.core.roster.bound_query(QueryId("q1")).sql == "SELECT x FROM a"
    assert len(harness.core.roster.records) == len(list(harness.core.roster.records)) == 3
    (path,) = harness.core.directory.path("checkpoints").glob("*.json")
    assert [each["id"] for each in harness.core.directory.read_json("checkpoints", path.name)["records"]] == ["q3"]


def test_a_crash_before_the_checkpoint_costs_no_record(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "n")
    harness.batch({})
    harness.drop("n")
    before = ended_queries(harness)
    harness.core.roster.records.settle(harness.core.lock, 0)  # the file is written, the checkpoint is not
    harness.reopen(2)
    assert ended_queries(harness) == before


def test_a_file_that_is_older_than_the_checkpoint_is_not_taken_for_whole(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "n")
    harness.batch({})
    harness.drop("n")
    harness.core.checkpoint()
    harness.core.directory.path("ended.sqlite").unlink()
    with pytest.raises(StateCorrupt, match=r'"ended.sqlite" has not all records'):
        harness.reopen(2)


def test_a_handle_outlives_its_record(harness: CoreHarness) -> None:
    query = Query(Catalog(harness.core), QueryId("q1"), "gone", None)
    assert query.state == "dropped"
    assert list(query.tables(0, 10)) == []
    with pytest.raises(UnknownQuery):
        _ = query.sql


def test_an_ended_query_that_cannot_be_read_has_failed_before_that_batch(harness: CoreHarness) -> None:
    core = harness.core
    harness.create("SELECT x FROM a", "n")
    for second in range(4):
        harness.batch({"a": [rows((second, 1, second))]})
    harness.drop("n")
    query = core.roster.find("n")
    assert query is not None
    core.set_aside(query, 2, "by zero")
    core.set_aside(query, 3, "a later row fails as well")
    for _ in range(2):
        found = core.roster.record(query)
        assert (found.ended, found.error) == (2, "by zero")
        core.checkpoint()
        harness.reopen(2)
        core = harness.core
    assert core.roster.records.failed_lately("") + core.roster.ended.failed("") == 1
