"""Results that are trimmed between two steps of a reader: it is told, and skips nothing in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_alone import Opened, Received, wait_for
from weft.engine.core import Core
from weft.engine.results import leases, result_log
from weft.engine.results.retention import Keep
from weft.engine.sinks import delivery
from weft.engine.sinks.sinks import callback
from weft.errors import ResultsGone
from weft.plan.changelog import QueryId


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    found = Opened(tmp_path, Keep(None, None, None, None))
    yield found
    found.engine.stop()


def test_a_sink_that_is_failed_while_it_looks_for_its_next_batch_gets_nothing_more(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it was given batches 4 and 5 after it had lost 0 to 3, and no gap was noted."""
    received, check = Received(), delivery.check_kept

    def fail_and_trim(core: Core, query: QueryId, delivered: int) -> None:
        check(core, query, delivered)
        if delivered == 0:
            opened.engine.deliveries._running[query].fail("it is too slow")
            core.trim_results(4)

    monkeypatch.setattr(delivery, "check_kept", fail_and_trim)
    query = opened.engine.create_one("SELECT x FROM a")
    for number in range(6):
        opened.batch(number, number)
    query.deliver_to(callback(received))
    wait_for(lambda: query.sink_state == "failed")
    opened.engine.deliveries._running[query.id].join(30)
    assert received.batches == []
    query.resume_sink()
    wait_for(lambda: len(received.batches) == 2)
    assert [batch for batch, _ in received.batches] == [4, 5]
    assert [(gap["from"], gap["until"]) for gap in query.sink_gaps] == [(0, 4)]


def test_a_sink_that_is_failed_while_it_is_busy_gets_no_other_batch(opened: Opened) -> None:
    """Before, it went on as long as its next batches happened to be kept."""
    received = Received()
    query = opened.engine.create_one("SELECT x FROM a")

    def take(rows: Sequence[Any], batch: int) -> None:
        received(rows, batch)
        if batch == 1:
            opened.engine.deliveries.fail(query.id, "it is too slow")

    for number in range(6):
        opened.batch(number, number)
    query.deliver_to(callback(take))
    wait_for(lambda: query.sink_state == "failed")
    opened.engine.deliveries._running[query.id].join(30)
    assert [batch for batch, _ in received.batches] == [0, 1]
    query.resume_sink()
    wait_for(lambda: len(received.batches) == 6)
    assert (query.sink_gaps, [batch for batch, _ in received.batches]) == ([], list(range(6)))


def test_a_list_of_batches_leaves_none_out_in_silence(opened: Opened) -> None:
    query = opened.engine.create_one("SELECT x FROM a", name="q")
    for number in range(6):
        opened.batch(number, number)
    opened.engine.core.trim_results(4)
    assert query.batches(4, 6) == [4, 5]
    with pytest.raises(ResultsGone, match='rows of query "q" before batch 4 are not kept any more'):
        query.batches(0, 6)


def test_a_reader_that_holds_batches_for_too_long_does_not_skip_them(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, manifests that had gone since the last look at the log were passed over."""
    monkeypatch.setattr(result_log, "_AT_ONCE", 2)
    query = opened.engine.create_one("SELECT x FROM a", name="q")
    for number in range(6):
        opened.batch(number, number)
    tables = query.tables(0, 6)
    found = [next(tables)["x"].to_pylist(), next(tables)["x"].to_pylist()]
    now = leases.time.monotonic()
    monkeypatch.setattr(leases.time, "monotonic", lambda: now + leases.LONGEST + 1)
    opened.engine.core.trim_results(4)
    assert found == [[0], [1]]
    with pytest.raises(ResultsGone, match="before batch 4 are not kept any more"):
        next(tables)


def test_leases_that_nobody_lets_go_of_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, only trimming forgot them, which never happens where results are kept for ever."""
    now = 0.0
    monkeypatch.setattr(leases.time, "monotonic", lambda: now)
    every = leases.Leases()
    for _ in range(1000):
        every.take(0, seconds=leases.GRACE)
        now += 1.0
    assert len(every._held) <= 4 * leases.GRACE
    assert every.limit(5) == 0, "those of the last minute hold"
    now += leases.GRACE
    assert every.limit(5) == 5
