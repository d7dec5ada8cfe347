"""A watermark that a wrong row has moved too far can be set back, and stays so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.engine_sample import EPOCH, JOIN, open_core, rows
from tests.support.harness import CoreHarness
from weft.engine.inputs.set_watermark import parse_time
from weft.errors import DiskFull, InvalidSetting, UnknownStream

SECOND = 1_000_000
FAR = 10**9
QUERIES = {
    "all": "SELECT x FROM a",
    "windows": "SELECT x, window_start FROM a [TUMBLE 10 SECONDS]",
    "join": JOIN,
    "sum": "SELECT k, SUM(x) AS s, window_start FROM a [TUMBLE 10 SECONDS] GROUP BY k",
    "session": "SELECT k, SUM(x) AS s, window_start FROM a [SESSION 5 SECONDS] GROUP BY k",
    "pairs": "SELECT SUM(p.x) AS s, window_start "
    "FROM a [TUMBLE 10 SECONDS] p JOIN b [TUMBLE 10 SECONDS] q ON p.k = q.k",
}


def moment(second: float) -> datetime:
    return EPOCH + timedelta(seconds=second)


def poisoned(path: Path) -> CoreHarness:
    """Good rows until second 12, then one of thirty years later; queries created before, and one after."""
    harness = open_core(path)
    harness.create_many([(sql, name) for name, sql in QUERIES.items()])
    harness.batch({"a": [rows((1, 1, 1), (12, 1, 2))], "b": [rows((2, 1, 3), (12, 1, 4))]})
    harness.batch({"a": [rows((FAR, 9, 9))]})
    harness.create("SELECT k, SUM(x) AS s, window_start FROM a [TUMBLE 10 SECONDS] GROUP BY k", "new")
    harness.batch({"a": [rows((13, 1, 5))]})
    assert dict(harness.core.inventory.results[-1].streams)["a"].late == 1
    return harness


def check(harness: CoreHarness) -> None:
    before = {name: harness.results(name) for name in QUERIES}
    harness.batch({"a": [rows((14, 1, 6), (21, 1, 7))], "b": [rows((22, 1, 8))]})
    harness.batch({"a": [rows((35, 1, 9), (60, 1, 10))], "b": [rows((60, 1, 11))]})
    came = {name: sorted(harness.results(name)[len(before[name]) :]) for name in QUERIES}  # type: ignore[type-var]
    assert came["all"] == [(7,), (9,), (10,)], "second 14 is before second 20"
    assert came["windows"] == [(7, moment(20)), (9, moment(30)), (10, moment(60))]
    assert came["join"] == [(7, 8), (10, 11)]
    assert came["sum"] == [(1, 7, moment(20)), (1, 9, moment(30))]
    assert came["session"] == [(1, 7, moment(21)), (1, 9, moment(35))]
    assert came["pairs"] == [(7, moment(20))]
    assert harness.results("new") == [(1, 7, moment(20)), (1, 9, moment(30))]
    assert harness.complete_from("new") == moment(20)
    assert harness.complete_from("all") is None
    assert all(harness.results(name)[: len(rows_)] == rows_ for name, rows_ in before.items())


def test_rows_count_again_from_the_time_that_is_set(tmp_path: Path) -> None:
    harness = poisoned(tmp_path)
    harness.core.set_watermark("a", 20 * SECOND)
    assert harness.core.watermarks()["a"] == 20 * SECOND
    check(harness)


@pytest.mark.parametrize("summed_up", [False, True])
def test_a_watermark_that_was_set_back_stays_so_after_a_restart(tmp_path: Path, summed_up: bool) -> None:
    harness = poisoned(tmp_path)
    harness.core.set_watermark("a", 20 * SECOND)
    if summed_up:
        harness.core.checkpoint()
    harness.reopen(3)
    assert harness.core.watermarks()["a"] == 20 * SECOND
    check(harness)
    harness.reopen(1)
    assert harness.core.watermarks()["a"] == 60 * SECOND


def test_during_a_batch_it_waits_for_the_boundary(tmp_path: Path) -> None:
    harness = poisoned(tmp_path)
    begun = harness.core.begin(harness.core.next_batch, partitions=2)
    assert begun is not None
    harness.core.set_watermark("a", 20 * SECOND)
    assert harness.core.watermarks()["a"] == FAR * SECOND
    harness.core.commit(begun[1].batch, [])
    assert harness.core.watermarks()["a"] == 20 * SECOND
    check(harness)


def test_a_query_that_waits_for_the_same_boundary_begins_there(tmp_path: Path) -> None:
    harness = poisoned(tmp_path)
    begun = harness.core.begin(harness.core.next_batch, partitions=2)
    assert begun is not None
    harness.create("SELECT x FROM a", "waiting")
    harness.core.set_watermark("a", 20 * SECOND)
    harness.core.abort()
    assert harness.complete_from("waiting") == moment(20) + timedelta(microseconds=1)


def test_what_cannot_be_written_is_not_in_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = poisoned(tmp_path)

    def full(*_: object) -> None:
        raise DiskFull("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(harness.core.directory, "append_json", full)
        with pytest.raises(DiskFull):
            harness.core.set_watermark("a", 20 * SECOND)
    harness.create("SELECT x FROM a", "another")
    assert harness.core.watermarks()["a"] == FAR * SECOND


def test_a_watermark_can_only_be_set_back(tmp_path: Path) -> None:
    harness = poisoned(tmp_path)
    with pytest.raises(InvalidSetting, match="cannot be set to"):
        harness.core.set_watermark("a", FAR * SECOND)
    with pytest.raises(InvalidSetting, match="it has none"):
        harness.core.set_watermark("c", 0)
    with pytest.raises(UnknownStream):
        harness.core.set_watermark("nothing", 0)


def test_times_are_read_in_utc() -> None:
    assert parse_time("1970-01-01T00:00:01Z") == parse_time("1970-01-01 00:00:01") == SECOND
    assert parse_time("1970-01-01T02:00:00+02:00") == parse_time(datetime(1970, 1, 1)) == 0  # noqa: DTZ001
    assert parse_time(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == SECOND
    for text in ("", "soon", "1970-13-01", "9" * 100):
        with pytest.raises(InvalidSetting, match="is not a time"):
            parse_time(text)
