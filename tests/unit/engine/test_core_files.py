"""What a core leaves on disk as batches go by: packs instead of files, and nothing of tasks that do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_sample import JOIN, data_files, open_core, reports_of, rows
from tests.support.harness import CoreHarness
from weft.engine import core as core_module
from weft.errors import DiskFull


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state")


def test_small_results_have_no_files_of_their_own_after_a_while(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_module, "CHECKPOINT_EVERY", 5)
    harness.create("SELECT x FROM a", "q")
    harness.create(JOIN, "j")
    for n in range(25):
        harness.batch({name: [rows((n, 1, n))] for name in "ab"})
    joined = sorted(harness.results("j"))
    assert len(joined) > 25
    state = {*harness.core.inventory.buckets, *harness.core.inventory.freed}
    assert data_files(harness) <= state, "what only results need is in packs"
    for _ in range(2):
        assert harness.results("q") == [(n,) for n in range(25)]
        assert sorted(harness.results("j")) == joined
        harness.reopen(3)
    harness.core.trim_results(20)
    assert harness.results("q") == [(n,) for n in range(20, 25)]
    for n in range(25, 30):
        harness.batch({"a": [rows((n, 1, n))]})
    assert len(list(harness.core.directory.path("packs").iterdir())) <= 2


def test_files_of_tasks_that_came_second_go_with_the_commit(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "q")
    core = harness.core
    begun = core.begin(0, partitions=2)
    assert begun is not None
    reports = reports_of(*begun, {"a": [rows((0, 1, 7))]})
    reports_of(*begun, {"a": [rows((0, 1, 8))]})  # the same task on another machine, which nobody waited for
    assert len(data_files(harness)) == 2
    core.commit(0, reports)
    assert len(data_files(harness)) == 1
    assert harness.results("q") == [(7,)]
    stray = core.directory.path("data", "000000000000", "late-abc.arrow")
    stray.write_bytes(b"")
    harness.reopen(1)
    assert not stray.exists()
    assert harness.results("q") == [(7,)]


def test_a_batch_counts_even_if_the_checkpoint_after_it_fails(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(core_module, "CHECKPOINT_EVERY", 2)
    harness.create("SELECT x FROM a", "q")

    def full(*_: object, **__: object) -> None:
        raise DiskFull("no space left while writing a pack")

    with monkeypatch.context() as patch:
        patch.setattr("weft.storage.journal.write_pack", full)
        for n in range(3):
            harness.batch({"a": [rows((n, 1, n))]})
    assert "no space left while writing a pack" in caplog.text
    assert harness.core.next_batch == 3
    harness.batch({"a": [rows((3, 1, 3))]})
    assert harness.core.directory.numbered("commits") == [], "the next batch has done it"
    harness.reopen(2)
    assert harness.results("q") == [(n,) for n in range(4)]
