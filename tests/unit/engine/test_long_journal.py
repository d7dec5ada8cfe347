"""Requests without batches: changelog and restarts stay bounded, and a crash while they are summed up loses nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.support.engine_sample import open_core, rows
from tests.support.harness import CoreHarness, Crash
from weft.engine import asked
from weft.errors import StateCorrupt
from weft.storage import directory as directory_module


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CoreHarness:
    monkeypatch.setattr(asked, "LONGEST_JOURNAL", 20)
    return open_core(tmp_path / "state")


def churn(harness: CoreHarness, count: int) -> None:
    for number in range(count):
        harness.create("SELECT x FROM a", f"n{number}")
        harness.drop(f"n{number}")


@pytest.mark.parametrize("batches", [0, 3])
def test_the_changelog_is_summed_up_without_a_batch(harness: CoreHarness, batches: int) -> None:
    harness.create("SELECT x FROM a", "stays")
    for second in range(batches):
        harness.batch({"a": [rows((second, 1, second))]})
    churn(harness, 300)
    lines = sum(path.read_bytes().count(b"\n") for path in harness.core.directory.path("changelog").iterdir())
    assert lines <= 20
    assert harness.core._journal.length <= 21
    for ended in (300, 307):
        harness.reopen(2)
        assert harness.core.next_batch == batches
        assert set(harness.core.roster.names) == {"stays"}
        assert len(harness.core.roster.records) == ended + 1
        churn(harness, 7)
    harness.batch({"a": [rows((50, 1, 7))]})
    assert harness.results("stays") == [*((n,) for n in range(batches)), (7,)]


class Disk:
    """Counts what changes names in the state directory, and dies at one of these changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps, self.dies_at = 0, -1
        replace, unlink = os.replace, Path.unlink

        def counted_replace(*values: object) -> None:
            self.step()
            replace(*values)  # type: ignore[arg-type]

        def counted_unlink(path: Path, *, missing_ok: bool = False) -> None:
            self.step()
            unlink(path, missing_ok=missing_ok)

        monkeypatch.setattr(directory_module.os, "replace", counted_replace)
        monkeypatch.setattr(Path, "unlink", counted_unlink)

    def step(self) -> None:
        if self.steps == self.dies_at:
            raise Crash
        self.steps += 1


def test_a_crash_at_any_point_of_summing_up_loses_nothing(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    harness.create("SELECT x FROM a", "stays")
    harness.batch({"a": [rows((0, 1, 0))]})
    names = {"stays"}
    crashes = 0
    for dies_at in range(12):
        for number in range(3):
            harness.create("SELECT x FROM a", f"{dies_at}-{number}")
            names.add(f"{dies_at}-{number}")
        disk.steps, disk.dies_at = 0, dies_at
        try:
            harness.core.checkpoint()
        except Crash:
            crashes += 1
        disk.dies_at = -1
        harness.reopen(2)
        assert set(harness.core.roster.names) == names
        harness.create("SELECT x FROM a", f"after-{dies_at}")
        names.add(f"after-{dies_at}")
        harness.reopen(2)
        assert set(harness.core.roster.names) == names
    assert crashes >= 2, "before the checkpoint is in place, and before the changelog is gone"
    harness.batch({"a": [rows((1, 1, 1))]})
    assert harness.results("stays") == [(0,), (1,)]


def test_changes_that_were_summed_up_are_missed_with_their_checkpoint(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "stays")
    harness.core.checkpoint()
    (path,) = harness.core.directory.path("checkpoints").iterdir()
    path.unlink()
    with pytest.raises(StateCorrupt, match="checkpoint"):
        harness.reopen(2)


def test_a_full_disk_fails_no_request_that_is_in_effect(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(harness.core, "checkpoint", full)
    churn(harness, 15)
    harness.create("SELECT x FROM a", "stays")
    assert set(harness.core.roster.names) == {"stays"}
    monkeypatch.undo()
    harness.reopen(2)
    assert set(harness.core.roster.names) == {"stays"}
