"""The thread that follows the commits: nothing that happens to queries or batches ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_alone import wait_for
from tests.support.engine_sample import rows
from tests.support.service_sample import Here, make_service
from weft.service.observer import Observer
from weft.service.service import QuerySpec, Service
from weft.service.tenancy.tenants import EVERYBODY


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Service, Here]]:
    service, host = make_service(tmp_path / "state")
    service.create(EVERYBODY, [QuerySpec("SELECT x FROM a", "q"), QuerySpec("SELECT x FROM b", "other")])
    yield service, host
    host.stop()


def seen(host: Here) -> list[int]:
    return [figures.batch for figures in host.observer.batches()]


def test_a_query_that_is_forgotten_with_its_stream_leaves_the_others_figures(made: tuple[Service, Here]) -> None:
    """Before, the thread died of a KeyError, figures froze and followers were not woken any more."""
    service, host = made
    rung: list[int] = []
    host.on_batch = lambda: rung.append(1)
    host.start()
    host.batch(a=rows((0, 1, 5)))
    wait_for(lambda: rung)
    service.drop(EVERYBODY, "q")
    host.catalog.core.drop_stream("a")
    host.batch(b=rows((1, 1, 6)))
    wait_for(lambda: len(rung) == 2)
    assert seen(host) == [0, 1]
    assert host.observer.query(service.query(EVERYBODY, "other").id).rows == 1


def test_what_goes_wrong_with_one_batch_is_logged_and_the_next_one_is_seen(
    made: tuple[Service, Here], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, host = made
    note, rung = Observer._note, list[int]()

    def fails(observer: Observer, manifest: Any, *others: Any) -> None:
        if manifest.batch == 0:
            raise ZeroDivisionError("who would have thought")
        note(observer, manifest, *others)

    monkeypatch.setattr(Observer, "_note", fails)
    host.on_batch = lambda: rung.append(1)
    host.start()
    host.batch(a=rows((0, 1, 5)))
    wait_for(lambda: rung)
    host.batch(a=rows((1, 1, 6)))
    wait_for(lambda: len(rung) == 2)
    assert seen(host) == [1]
    assert "who would have thought" in caplog.text
