"""An idle stream, or one that never began, holds up nobody's state; what comes of it too late is counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.engine_sample import JOIN, WINDOW, open_core, rows, stream
from tests.support.harness import CoreHarness

THREE = f"{JOIN} JOIN c {WINDOW} r ON q.k = r.k"


def opened(path: Path, timeout: float = 60) -> CoreHarness:
    return open_core(path, streams=[replace(stream(n), idle_timeout=timedelta(seconds=timeout)) for n in "abc"])


def missed(harness: CoreHarness, name: str) -> int:
    return dict(harness.core.inventory.results[-1].streams)[name].missed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("weft.engine.inputs.clocks.time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("sql", [JOIN, THREE, JOIN.replace(f"b {WINDOW}", "b [UNBOUNDED]")])
def test_while_only_one_stream_has_rows_state_stays_small(
    tmp_path: Path, clock: list[float], sql: str, begun: bool
) -> None:
    harness = opened(tmp_path)
    harness.create(sql, "q")
    if begun:
        harness.batch({name: [rows((0, 1, 1))] for name in "abc"})
    for second in range(1, 200):
        clock[0] += 1
        harness.batch({"a": [rows((second, 1, second))]})
    # Sixty seconds until it counts as idle, then ten of the window.
    assert len(harness.core.inventory.buckets) < 20
    harness.reopen(2)
    assert len(harness.core.inventory.buckets) < 20


def test_rows_that_come_back_meet_what_comes_after_and_are_counted(tmp_path: Path, clock: list[float]) -> None:
    harness = opened(tmp_path)
    harness.create(JOIN, "q")
    harness.batch({"a": [rows((0, 1, 1))], "b": [rows((0, 1, 2))]})
    clock[0] += 61
    harness.batch({"a": [rows((100, 1, 3))]})
    harness.reopen(3)
    harness.batch({"b": [rows((95, 1, 4), (100, 1, 5), (50, 1, 6))]})
    assert (missed(harness, "b"), dict(harness.core.inventory.results[-1].streams)["b"].late) == (2, 0)
    harness.batch({"a": [rows((104, 1, 7))]})
    assert sorted(harness.results("q")) == [(1, 2), (3, 5), (7, 4), (7, 5)]


def test_what_is_kept_without_limit_is_met_however_late(tmp_path: Path, clock: list[float]) -> None:
    harness = opened(tmp_path)
    harness.create(JOIN.replace(WINDOW, "[UNBOUNDED]"), "q")
    harness.batch({"a": [rows((0, 1, 1))], "b": [rows((0, 1, 2))]})
    clock[0] += 61
    harness.batch({"a": [rows((100, 1, 3))]})
    harness.batch({"b": [rows((50, 1, 4))]})
    assert missed(harness, "b") == 0
    assert sorted(harness.results("q")) == [(1, 2), (1, 4), (3, 2), (3, 4)]


def test_rows_for_windows_that_have_ended_are_counted(tmp_path: Path, clock: list[float]) -> None:
    """M14: windows that are no sessions, of which some may be open still."""
    harness = opened(tmp_path)
    window = "[RANGE 10 SECONDS SLIDE 5 SECONDS]"
    harness.create(f"SELECT COUNT(*) AS n, window_start FROM a {window} p JOIN b {window} q ON p.k = q.k", "q")
    harness.batch({"a": [rows((1, 1, 1))], "b": [rows((1, 1, 1))]})
    clock[0] += 61
    harness.batch({"a": [rows((22, 1, 1))]})
    # The windows from 5 and from 10 have ended with second 20, that from 15 has not.
    harness.batch({"b": [rows((11, 1, 1), (16, 1, 1), (19, 1, 1), (21, 1, 1))]})
    assert missed(harness, "b") == 3
    harness.batch({"a": [rows((60, 1, 1))], "b": [rows((60, 1, 1))]})
    counts = [row[0] for row in harness.results("q")]
    assert counts == [1, 1, 3, 1], "windows from -5, 0, 15 and 20"


def test_who_is_not_idle_misses_nothing(tmp_path: Path, clock: list[float]) -> None:
    harness = opened(tmp_path)
    harness.create(JOIN, "q")
    harness.batch({"a": [rows((100, 1, 1))]})
    clock[0] += 59
    harness.batch({"b": [rows((0, 1, 2), (95, 1, 3))]})
    assert missed(harness, "b") == 0
    assert harness.results("q") == [(1, 3)]
