"""How long results are kept, by time and by bytes, whatever the wall clock says, and for whom longer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.engine_alone import Opened, Received, wait_for
from weft.engine.batches import reports
from weft.engine.results import retention
from weft.engine.results.retention import Keep, keep, parse_size
from weft.engine.sinks.sinks import callback
from weft.errors import InvalidSetting
from weft.service.config import Config, EngineSection

FOREVER = Keep(None, None, None, None)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    found = Opened(tmp_path, Keep(100.0, None, None, None))
    yield found
    found.engine.stop()


def kept(opened: Opened) -> list[int]:
    return [manifest.batch for manifest in opened.engine.core.inventory.results_of(0)]


# ---- settings


def test_defaults_are_bounds_and_for_ever_has_to_be_asked_for() -> None:
    assert keep() == Keep(86_400.0, 50 * 10**9, 10 * 10**9, 86_400.0)
    assert keep(None) == keep("forever") == Keep(None, None, 10 * 10**9, 86_400.0)
    assert keep(None, "1 GB").bytes == 10**9
    assert keep(timedelta(hours=1), None, sink_backlog=None, sink_patience="forever") == Keep(3600.0, None, None, None)


def test_the_service_has_the_same_defaults() -> None:
    section = EngineSection(path=Path("state"))
    given = (section.keep_results, section.keep_bytes)
    assert keep(*given, sink_backlog=section.sink_backlog, sink_patience=section.sink_patience) == keep()
    assert Config(engine=section).engine == section


@pytest.mark.parametrize(("given", "size"), [(0, 0), ("7", 7), ("10 GB", 10**10), ("1kb", 1000), (" 2 t ", 2 * 10**12)])
def test_sizes(given: str | int, size: int) -> None:
    assert parse_size(given) == size


@pytest.mark.parametrize("given", ["", "much", "-1", "1.5 GB", -1, True, "1 PB"])
def test_what_is_no_size_is_refused(given: str | int) -> None:
    with pytest.raises(InvalidSetting, match="is not a size"):
        parse_size(given)


# ---- time


def test_results_are_kept_for_their_time(opened: Opened) -> None:
    for number in range(6):
        opened.now = 30.0 * number
        opened.batch(number, number)
    assert kept(opened) == [2, 3, 4, 5]


def test_nothing_is_removed_where_results_are_kept_for_ever(tmp_path: Path) -> None:
    opened = Opened(tmp_path, FOREVER)
    for number in range(3):
        opened.now += 1e9
        opened.batch(number, number)
    assert kept(opened) == [0, 1, 2]
    opened.engine.stop()


def test_a_wall_clock_that_jumps_removes_nothing(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, all results were gone at the next batch."""
    opened.batch(0, 0)
    monkeypatch.setattr(reports.time, "time", lambda: 4e9)
    opened.batch(1, 1)
    opened.restart()
    opened.batch(2, 2)
    assert kept(opened) == [0, 1, 2]


def test_time_goes_on_after_a_restart_and_does_not_while_nothing_runs(opened: Opened) -> None:
    opened.batch(0, 0)
    opened.now = 60.0
    opened.batch(1, 1)
    opened.engine.stop()
    opened.now = 1e6  # for as long as that no engine was open
    opened.open()
    opened.batch(2, 2)
    assert kept(opened) == [0, 1, 2]
    opened.now += 50.0
    opened.batch(3, 3)
    assert kept(opened) == [1, 2, 3]


def test_what_was_not_noted_before_a_crash_is_kept_longer_not_shorter(opened: Opened) -> None:
    opened.batch(0, 0)
    opened.engine.core.directory.path("retention.json").write_text("{torn")
    opened.engine.core.directory.close()
    opened.now = 90.0
    opened.open()
    opened.now = 180.0
    opened.batch(1, 1)
    assert kept(opened) == [0, 1]
    opened.now = 200.0
    opened.batch(2, 2)
    assert kept(opened) == [1, 2]


def test_marks_are_few_and_not_written_with_every_batch(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_MOST_MARKS", 40)
    for number in range(100):
        opened.now = number * 0.5
        opened.batch(number, number)
        assert len(opened.engine.retention._marks) <= 40
        assert opened.engine.core.directory.path("retention.json").exists() == (number > 20)
    opened.now = 130.0  # what is older than 30 seconds goes: batches before 60
    opened.batch(100, 100)
    assert 45 <= kept(opened)[0] <= 60
    opened.engine.retention.save()
    assert len(opened.engine.core.directory.read_json("retention.json")["marks"]) <= 40


def test_what_cannot_be_removed_now_fails_no_batch(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.batch(0, 0)
    opened.now = 200.0

    def fails(_: int) -> None:
        raise OSError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(opened.engine.core, "trim_results", fails)
        opened.batch(1, 1)
    assert kept(opened) == [0, 1]
    opened.batch(2, 2)
    assert kept(opened) == [1, 2]


# ---- bytes


def test_results_are_kept_up_to_some_bytes(tmp_path: Path) -> None:
    opened = Opened(tmp_path, FOREVER)
    opened.engine.create_one("SELECT x FROM a")
    opened.batch(0, 0)
    size = retention.bytes_of(opened.engine.core.inventory.results_of(0)[0])
    opened.engine.stop()
    opened.kept = Keep(None, 3 * size, None, None)
    opened.open()
    for number in range(1, 9):
        opened.batch(number, number)
    assert kept(opened)[-1] == 8
    assert 3 <= len(kept(opened)) <= 4
    opened.engine.stop()


def test_the_last_batch_is_kept_however_large_it_is(tmp_path: Path) -> None:
    opened = Opened(tmp_path, Keep(None, 0, None, None))
    opened.engine.create_one("SELECT x FROM a")
    for number in range(3):
        opened.batch(number, number)
        assert kept(opened) == [number]
    opened.engine.stop()


# ---- sinks


def test_results_are_kept_for_a_sink_that_has_not_had_them(opened: Opened) -> None:
    failing = Received()
    failing.fails = True
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(failing))
    for number in range(3):
        opened.now = 1000.0 * number
        opened.batch(number, number)
    wait_for(lambda: query.sink_error)
    assert kept(opened) == [0, 1, 2]


@pytest.mark.parametrize("bound", [Keep(100.0, None, 1, None), Keep(100.0, None, None, 500.0)])
def test_a_sink_that_is_too_slow_fails_and_holds_back_no_others(tmp_path: Path, bound: Keep) -> None:
    """Before, one that was slow and did not fail was never set aside: it could fill the disk of all."""
    opened = Opened(tmp_path, bound)
    slow, good = Received(), Received()
    slow.fails = True
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(slow))
    other = opened.engine.create_one("SELECT x FROM a", sink=callback(good))
    for number in range(12):
        opened.now = 99.0 * number
        opened.batch(number, number)
        wait_for(lambda: opened.engine.deliveries._running[other.id].needs == number + 1)  # noqa: B023
    assert (query.sink_state, other.sink_state) == ("failed", "delivering")
    assert "it is too slow, or down: results from batch 0 on were kept for it alone" in query.sink_error
    assert kept(opened)[0] > 3
    assert [batch for batch, _ in good.batches] == list(range(12))
    opened.engine.stop()


def test_a_sink_without_rows_is_not_too_slow(tmp_path: Path) -> None:
    """How far it has got is noted now and then only: that is done before it is called slow."""
    opened = Opened(tmp_path, Keep(0.0, None, 1, None))
    query = opened.engine.create_one("SELECT x FROM a WHERE x < 0", sink=callback(Received()))
    opened.engine.create_one("SELECT x FROM a")
    delivery = opened.engine.deliveries._running[query.id]
    for number in range(6):
        opened.now += 1.0
        opened.batch(number, number)
        wait_for(lambda: delivery.note.delivered == number + 1)  # noqa: B023
    assert query.sink_state == "delivering"
    assert kept(opened)[0] >= 4
    opened.engine.stop()
