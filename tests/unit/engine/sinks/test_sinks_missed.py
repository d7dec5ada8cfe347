"""The file of a sink that is gone is missed, and so is the name by which sinks know the state directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine_alone import Opened, Received, wait_for
from weft.engine.core import Core
from weft.engine.sinks.sinks import callback
from weft.errors import StateCorrupt


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    found = Opened(tmp_path)
    yield found
    found.engine.stop()


@pytest.mark.parametrize("summed_up", [False, True])
@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("ended", [False, True])
def test_a_sink_whose_file_is_gone_is_missed(opened: Opened, summed_up: bool, attached: bool, ended: bool) -> None:
    received = Received()
    received.fails = True  # otherwise it has had everything when its query ends
    query = opened.engine.create_one("SELECT x FROM a", sink=None if attached else callback(received))
    if attached:
        query.deliver_to(callback(received))
    opened.batch(0, 1)
    if ended:
        query.drop()
    if summed_up:
        opened.engine.core.checkpoint()
    opened.engine.stop()
    path = opened.engine.core.directory.path("sinks", "q1.json")
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(StateCorrupt, match=r'"sinks/q1\.json" is missing'):
        opened.open()
    path.write_bytes(whole)
    opened.open()
    assert opened.engine.deliveries.state_of(query.id) == "detached"


def test_a_sink_that_has_had_everything_is_not_missed(opened: Opened) -> None:
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(Received()))
    opened.batch(0, 1)
    query.drop()
    wait_for(lambda: not opened.engine.deliveries._running)
    assert not list(opened.engine.core.directory.path("sinks").iterdir())
    for _ in range(2):
        opened.restart()
        assert opened.engine.deliveries.state_of(query.id) == ""
        assert not opened.engine.core.roster.sinks
        opened.engine.core.checkpoint()


def test_a_sink_attached_to_a_query_that_waits_is_missed_too(opened: Opened) -> None:
    core = opened.engine.core
    core.begin(0, partitions=1)
    query = opened.engine.create_one("SELECT x FROM a")
    query.deliver_to(callback(Received()))
    core.abort()
    opened.engine.stop()
    core.directory.path("sinks", "q1.json").unlink()
    with pytest.raises(StateCorrupt, match=r'"sinks/q1\.json" is missing'):
        opened.open()
    opened.engine.core.directory.path("sinks", "q1.json").write_bytes(b"")
    with pytest.raises(StateCorrupt, match=r'"sinks/q1\.json" cannot be read'):
        opened.open()


def test_a_crash_between_the_file_and_the_changelog_costs_no_sink(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = opened.engine.create_one("SELECT x FROM a")
    with monkeypatch.context() as patch:
        patch.setattr(Core, "note_sink", lambda *_: None)
        query.deliver_to(callback(Received()))
        opened.restart()
    opened.restart()
    assert opened.engine.deliveries.state_of(query.id) == "detached"
    assert opened.engine.core.roster.sinks == {query.id}


@pytest.mark.parametrize("damage", ["removed", "emptied"])
def test_another_identity_is_not_made_up(opened: Opened, damage: str) -> None:
    opened.engine.stop()
    path = opened.engine.core.directory.path("identity.json")
    whole = path.read_bytes()
    path.unlink()
    if damage == "emptied":
        path.write_bytes(b"")
    with pytest.raises(StateCorrupt, match=r'"identity\.json"'):
        opened.open()
    path.write_bytes(whole)
    opened.open()
