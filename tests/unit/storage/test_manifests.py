"""Manifests of batches long ago are on the disk only, and are read like the others."""

from __future__ import annotations

import pytest

from weft.errors import ResultsGone, StateCorrupt
from weft.storage import manifests as retained
from weft.storage.journal import Manifest
from weft.storage.manifests import ManifestLog


def manifest(batch: int) -> Manifest:
    return Manifest(batch, float(batch), (), (), (), (), (), (), (), 0)


class Disk:
    """Remembers who was read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __call__(self, batch: int) -> Manifest:
        self.read.append(batch)
        return manifest(batch)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def log(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> ManifestLog:
    monkeypatch.setattr(retained, "LATEST", 3)
    log = ManifestLog(disk)
    for batch in range(10):
        log.add(manifest(batch))
    return log


def batches(manifests: object) -> list[int]:
    return [each.batch for each in manifests]  # type: ignore[attr-defined]


def test_only_the_latest_are_in_memory(log: ManifestLog, disk: Disk) -> None:
    everything = log.between(0)
    assert len(everything) == 10
    assert everything.batches == range(10)
    assert batches(everything[-3:]) == [7, 8, 9]
    assert disk.read == []
    assert batches(everything) == list(range(10))
    assert disk.read == list(range(7))
    assert len(log._latest) == len(log._lately) == 3


def test_a_sequence_like_any_other(log: ManifestLog) -> None:
    everything = log.between(0)
    assert (everything[0].batch, everything[-1].batch, everything[4].batch) == (0, 9, 4)
    assert batches(everything[2:4]) == [2, 3]
    assert batches(everything[::4]) == [0, 4, 8]
    assert batches(everything[8:99]) == [8, 9]
    with pytest.raises(IndexError):
        everything[10]
    assert not log.between(20)
    assert batches(log.between(8, 99)) == [8, 9]
    assert batches(log.between(5, 3)) == []


def test_what_was_read_lately_is_not_read_again(log: ManifestLog, disk: Disk) -> None:
    for _ in range(3):
        assert log.read(2).batch == 2
    assert disk.read == [2]


def test_what_is_given_up_is_gone(log: ManifestLog) -> None:
    before = log.between(0)
    log.read(3)
    log.forget(4)
    assert batches(log.between(0)) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(ResultsGone, match="batch 3"):
        log.read(3)
    with pytest.raises(ResultsGone, match="batch 0"):
        list(before)
    log.forget(2)
    assert log.first == 4
    log.forget(99)
    assert (log.first, log.following, list(log.between(0))) == (10, 10, [])
    log.add(manifest(10))
    assert batches(log.between(0)) == [10]


def test_after_a_restart_all_are_on_the_disk(disk: Disk) -> None:
    log = ManifestLog(disk)
    log.begin(5, 8)
    log.add(manifest(8))
    assert batches(log.between(0)) == [5, 6, 7, 8]
    assert disk.read == [5, 6, 7]


@pytest.mark.parametrize("removed", [False, True])
def test_a_manifest_that_is_forgotten_while_it_is_read_is_not_kept(log: ManifestLog, removed: bool) -> None:
    """A checkpoint may remove its file before it is read, which is no damage."""

    def forget_first(batch: int) -> Manifest:
        log.forget(5)
        if removed:
            raise StateCorrupt("it is missing")
        return manifest(batch)

    log._on_disk = forget_first
    if removed:
        with pytest.raises(ResultsGone, match="results of batch 2 are not kept"):
            log.read(2)
    else:
        assert log.read(2).batch == 2
    assert 2 not in log._lately
