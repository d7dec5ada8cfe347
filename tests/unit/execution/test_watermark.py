"""How far event time has come, and what a stream without rows holds back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.engine_sample import open_core, rows, stream
from tests.unit.execution.aggregate.test_close_windows import groups
from weft.execution.watermark import advance, closed_until

SECOND = 1_000_000
BOTH = ("a", "b")


def test_watermarks_only_go_forward() -> None:
    streams = {"a": stream("a", lateness=2), "b": stream("b")}
    assert advance(streams, {}, {"a": 5 * SECOND}) == {"a": 3 * SECOND}
    assert advance(streams, {"a": 4 * SECOND, "b": 7}, {"a": 5 * SECOND}) == {"a": 4 * SECOND, "b": 7}
    assert advance(streams, {"a": -9}, {"a": 0, "b": -1}) == {"a": -9, "b": -1}


@pytest.mark.parametrize(
    ("watermarks", "idle", "before", "wanted"),
    [
        ({}, "", None, None),
        ({}, "", 4, 4),
        ({"a": 5}, "", None, None),
        ({"a": 5}, "", 3, 3),
        ({"a": 5, "b": 2}, "", None, 2),
        ({"a": 5, "b": 2}, "", 3, 3),
        ({"a": 5, "b": 2}, "b", None, 5),
        ({"a": 5}, "b", None, 5),
        ({"a": 5}, "b", 7, 7),
        ({"a": 5}, "a", None, None),
        ({"a": 5, "b": 2}, "ab", None, 2),
        ({"a": 5}, "ab", None, None),
        ({"a": 5, "b": 2, "c": 0}, "c", None, 2),
    ],
)
def test_windows_end_with_the_slowest_stream_that_has_rows(
    watermarks: dict[str, int], idle: str, before: int | None, wanted: int | None
) -> None:
    assert closed_until(BOTH, watermarks, idle=frozenset(idle), before=before) == wanted


def test_an_idle_stream_keeps_its_own_lateness() -> None:
    lateness = {"a": 1, "b": 30}
    assert closed_until(BOTH, {"a": 99}, idle=frozenset("b"), before=None, lateness=lateness) == 70
    assert closed_until(BOTH, {"a": 99, "b": 80}, idle=frozenset(), before=None, lateness=lateness) == 80
    assert closed_until(BOTH, {"a": 99, "b": 20}, idle=frozenset("b"), before=85, lateness=lateness) == 85


def test_windows_of_a_join_do_not_wait_for_an_idle_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("weft.engine.inputs.clocks.time.monotonic", lambda: clock[0])
    streams = [replace(stream(name), idle_timeout=timedelta(seconds=60)) for name in "ab"]
    harness = open_core(tmp_path / "state", streams=streams)
    harness.create("SELECT COUNT(*) FROM a [TUMBLE 5 SECONDS] p JOIN b [TUMBLE 5 SECONDS] q ON p.k = q.k", "q")
    harness.batch({"a": [rows((1, 1, 1))], "b": [rows((2, 1, 1), (3, 1, 1))]})
    clock[0] += 60
    harness.batch({"a": [rows((20, 1, 1))]})
    assert groups(harness, "q") == [], "b is not idle yet"
    clock[0] += 1
    harness.batch({"a": [rows((21, 1, 1))]})
    assert groups(harness, "q") == [(2, 0, 5)]
    # It comes back: what is ended stays ended, what is not goes on.
    harness.batch({"b": [rows((4, 1, 1), (22, 1, 1))]})
    harness.batch({"a": [rows((40, 1, 1))], "b": [rows((40, 1, 1))]})
    assert groups(harness, "q") == [(2, 0, 5), (2, 20, 25)]


def test_a_session_is_reported_once_though_an_idle_stream_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("weft.engine.inputs.clocks.time.monotonic", lambda: clock[0])
    streams = [replace(stream(name), idle_timeout=timedelta(seconds=60)) for name in "ab"]
    harness = open_core(tmp_path / "state", streams=streams)
    harness.create(
        "SELECT p.k, COUNT(*) FROM a [SESSION 3 SECONDS] p JOIN b [SESSION 3 SECONDS] q ON p.k = q.k GROUP BY p.k", "q"
    )
    harness.batch({"a": [rows((1, 1, 1), (20, 2, 1))], "b": [rows((1, 1, 1))]})
    clock[0] += 61
    harness.batch({"a": [rows((21, 2, 1))]})
    assert groups(harness, "q") == [(1, 1, 1, 4)], "b is idle: the session has ended without it"
    # These would have made the ended session longer: they are late for it.
    harness.batch({"b": [rows(*((second, 1, 1) for second in range(2, 29, 2)))]})
    harness.batch({"a": [rows((60, 3, 1))], "b": [rows((60, 3, 1))]})
    assert groups(harness, "q") == [(1, 1, 1, 4)]
