"""A sink that has failed ends when its query has, and nothing is kept that could be delivered; the gap is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine_alone import Opened, Received, files_of, part, wait_for
from tests.unit.engine.sinks.test_sink_gaps import SOON, a_sink_that_missed_rows, batches, broken, mended
from weft.engine.sinks.sinks import callback
from weft.plan.changelog import QueryId


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    found = Opened(tmp_path, SOON)
    yield found
    found.engine.stop()


def ended(opened: Opened, query: QueryId) -> None:
    """The thread of a sink that has failed takes a moment to see that."""
    thread = opened.engine.deliveries._running[query]._thread
    assert thread is not None
    thread.join()


def test_a_failed_sink_of_a_dropped_query_goes_with_the_last_rows(opened: Opened, tmp_path: Path) -> None:
    """Before, it stayed for ever: an object in every process, and a file."""
    folder = tmp_path / "out"
    id_ = a_sink_that_missed_rows(opened, folder)
    opened.engine.query_by_id(id_).drop()
    assert opened.engine.deliveries.state_of(id_) == "failed"
    ended(opened, id_)
    batches(opened, *range(5, 8))
    wait_for(lambda: not opened.engine.deliveries._running)
    assert not list(opened.engine.core.directory.path("sinks").iterdir())
    (gap,) = json.loads((folder / "_weft" / "gaps.json").read_text())
    assert (gap["from"], gap["until"]) == (1, 5)
    assert files_of(folder) == {part(0): [0]}
    opened.restart()
    assert opened.engine.deliveries.state_of(id_) == ""


def test_it_goes_at_a_start_too_and_only_when_the_gap_is_written(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    id_ = a_sink_that_missed_rows(opened, folder)
    broken(folder)
    opened.engine.query_by_id(id_).drop()
    ended(opened, id_)
    batches(opened, *range(5, 8))
    ended(opened, id_)
    assert opened.engine.deliveries.state_of(id_) == "failed"
    mended(folder)
    opened.restart()
    wait_for(lambda: not opened.engine.deliveries._running)
    assert len(json.loads((folder / "_weft" / "gaps.json").read_text())) == 1
    assert not list(opened.engine.core.directory.path("sinks").iterdir())


def test_a_failed_callback_that_nobody_has_attached_again_goes_too(opened: Opened) -> None:
    received = Received()
    received.fails = True
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(received))
    batches(opened, 0)
    opened.crash()
    batches(opened, *range(1, 4))
    assert opened.engine.deliveries.state_of(query.id) == "failed"
    opened.engine.query_by_id(query.id).drop()
    batches(opened, *range(4, 7))
    assert opened.engine.deliveries.state_of(query.id) == ""
    assert not list(opened.engine.core.directory.path("sinks").iterdir())
    assert not opened.engine.core.roster.sinks
