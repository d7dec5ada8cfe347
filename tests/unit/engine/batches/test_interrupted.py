"""Ctrl-C, and faults behind the point of no return: what is on disk and what is known stay the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine_sample import JOIN, open_core, rows, run_batch
from tests.support.harness import CoreHarness
from weft.storage.head import Head
from weft.storage.uninterrupted import defer_signals


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state")


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """As in a terminal: what a shell runs in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _signal_during_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the next flush runs."""
    flush = os.fsync

    def interrupted(file: int) -> None:
        monkeypatch.setattr(os, "fsync", flush)
        flush(file)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "fsync", interrupted)


def test_an_interrupt_during_a_commit_waits_until_the_batch_counts(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create(JOIN, "q")
    begun = harness.core.begin(0, partitions=1)
    assert begun is not None
    _signal_during_flush(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_batch(harness.core, {"a": [rows((0, 1, 1))], "b": [rows((0, 1, 2))]})
    for _ in range(2):
        assert harness.core.next_batch == 1
        assert len(harness.results("q")) == 1
        harness.reopen(1)
    harness.batch({"a": [rows((1, 1, 3))]})
    assert len(harness.results("q")) == 2


def test_an_interrupt_while_a_query_is_created_leaves_it_whole(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("SELECT x FROM a", "q")
    _signal_during_flush(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        harness.create("SELECT x FROM a", "r")
    harness.create("SELECT x FROM a", "s")
    harness.batch({"a": [rows((1, 1, 3))]})
    before = {name: harness.results(name) for name in harness.core.roster.names}
    assert set(before) == {"q", "r", "s"}
    harness.reopen(1)
    assert {name: harness.results(name) for name in harness.core.roster.names} == before


def test_a_head_that_cannot_be_written_is_behind_and_nothing_is_lost(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create(JOIN, "q")

    def fails(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Head, "_write", fails)
        harness.batch({"a": [rows((0, 1, 1))], "b": [rows((0, 1, 2))]})
        harness.create("SELECT x FROM a", "r")
    harness.batch({"a": [rows((1, 1, 3))]})
    found = {name: harness.results(name) for name in ("q", "r")}
    assert (len(found["q"]), len(found["r"])) == (2, 1)
    harness.reopen(1)
    assert {name: harness.results(name) for name in ("q", "r")} == found


def test_signals_wait_in_the_main_thread_and_handlers_are_put_back() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        with defer_signals():
            signal.raise_signal(signal.SIGTERM)
            assert seen == []
        assert seen == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(seen) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    thread = threading.Thread(target=lambda: defer_signals().__enter__())
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


def test_rows_of_files_that_are_merged_and_still_referred_to_stay_readable(tmp_path: Path) -> None:
    """A bucket that was merged away in one batch, and freed in a later one because stored lists referred to it, was
    removed with the results of the first, and packed twice, so that no checkpoint could be written any more."""
    harness = open_core(tmp_path / "state", partitions=1)
    window = "[RANGE 32 SECONDS]"
    harness.create(
        f"SELECT p.x, q.x, r.x FROM a {window} p JOIN b {window} q ON p.k = q.k JOIN c {window} r ON q.x = r.x", "q"
    )
    for time in range(49):
        row = rows((time, time % 5, time % 3))
        harness.batch({"a": [row], "b": [row], "c": [rows(*((time, 1, time % 3) for _ in range(30)))]})
    core = harness.core
    left = [path for each in core.inventory.results for path in (*each.merged_away, *each.freed)]
    assert len(left) > len(set(left)), "no file has left the state twice: the test says nothing"
    core.checkpoint()
    for first in range(1, 49):
        core.trim_results(first)
        harness.results("q")
