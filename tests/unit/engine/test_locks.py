"""The core's lock is held for moments: never while many records or files are read or removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_sample import JOIN, STREAMS, open_core, rows
from tests.support.harness import CoreHarness
from weft.engine.views.what_if import what_if
from weft.plan.changelog import QueryId
from weft.sql import bind
from weft.storage.data_folder import DataFolder
from weft.storage.ended_queries import EndedQueries
from weft.storage.journal import Journal


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state")


def watch(monkeypatch: pytest.MonkeyPatch, harness: CoreHarness, owner: type, name: str) -> list[bool]:
    """Whether the lock was held at each call of a method."""
    real: Callable[..., Any] = getattr(owner, name)
    held: list[bool] = []

    def watched(*values: Any, **named: Any) -> Any:
        held.append(harness.core.lock._is_owned())  # type: ignore[attr-defined]
        return real(*values, **named)

    monkeypatch.setattr(owner, name, watched)
    return held


def test_records_over_a_dropped_stream_go_outside_of_it(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, stream in enumerate("abab"):
        harness.create(f"SELECT x FROM {stream} WHERE x > 1", f"n{number}")
        harness.drop(f"n{number}")
        if number == 2:
            harness.core.checkpoint()
    reads = [watch(monkeypatch, harness, EndedQueries, name) for name in ("_opened", "over", "remove")]
    harness.core.drop_stream("b")
    assert all(held for held in reads)
    assert not any(any(held) for held in reads[1:])
    assert sorted(harness.core.roster.records) == ["q1", "q3"]
    harness.reopen(1)
    assert sorted(harness.core.roster.records) == ["q1", "q3"]


def test_records_are_counted_with_one_statement(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        harness.create("SELECT x FROM a", f"n{number}")
    for number in range(10):
        harness.drop(f"n{number}")
    records = harness.core.roster.records
    harness.core.roster.ended.put([records[QueryId("q1")]])  # as after a crash: both here and there
    calls = watch(monkeypatch, harness, EndedQueries, "_opened")
    assert len(records) == 20
    assert len(calls) == 1


def test_files_that_nobody_needs_go_outside_of_it(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = watch(monkeypatch, harness, DataFolder, "remove")
    harness.create(JOIN, "j")
    for second in range(0, 300, 30):
        harness.batch({name: [rows((second, 1, second))] for name in "ab"})
        harness.core.trim_results(harness.core.next_batch)
    assert removed
    assert not any(removed)


def test_manifests_are_read_outside_of_it(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.create("SELECT x FROM a", "q")
    for second in range(5):
        harness.batch({"a": [rows((second, 1, second))]})
    harness.core.checkpoint()
    read = watch(monkeypatch, harness, Journal, "read_manifest")
    harness.reopen(2)
    harness.core.planned()
    harness.core.inventory._log._lately.clear()
    read.clear()
    assert what_if(harness.core, bind("SELECT x FROM a", STREAMS)).rows_per_second >= 0
    assert len(read) == 5
    assert not any(read)
