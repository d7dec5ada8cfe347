"""Sinks: every committed row once, in order, also after a restart; what fails is tried again.

Everything is real but the engine around it, which would need Spark: batches are run by the stages themselves.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_alone import Opened, Received, files_of, part, wait_for
from tests.support.engine_sample import JOIN, STREAMS
from weft.engine.core import Core
from weft.engine.sinks import deliveries as sending
from weft.engine.sinks import delivery
from weft.engine.sinks.sinks import callback, parquet
from weft.errors import InvalidSetting
from weft.plan.changelog import QueryId
from weft.sql import bind
from weft.storage.directory import Directory


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    found = Opened(tmp_path)
    yield found
    found.engine.stop()


# ---- callbacks


def test_rows_are_delivered_batch_by_batch_with_their_names(opened: Opened) -> None:
    received, named = Received(), []
    opened.engine.create_one("SELECT x, k AS key FROM a WHERE x > 1", sink=callback(received))
    opened.engine.create_one("SELECT x, k AS key FROM a", sink=callback(lambda found, _: named.extend(found)))
    opened.batch(0, 1, 2)
    opened.batch(1, 1)
    opened.batch(2, 5, 6)
    opened.engine.stop()
    assert received.batches == [(0, [(2, 1)]), (2, [(5, 1), (6, 1)])]
    assert (named[0].x, named[0].key) == (1, 1)


def test_a_sink_that_comes_late_gets_what_was_committed_before(opened: Opened) -> None:
    received = Received()
    (query, _, _) = opened.engine.core.submit(create=[(None, bind("SELECT x FROM a", STREAMS))]).created[0]
    opened.batch(0, 1)
    opened.engine.query_by_id(query).deliver_to(callback(received))
    opened.batch(1, 2)
    opened.engine.stop()
    assert received.batches == [(0, [(1,)]), (1, [(2,)])]


def test_a_callback_attached_again_goes_on_where_it_was(opened: Opened) -> None:
    first, second = Received(), Received()
    opened.engine.create_one("SELECT x FROM a", name="q", sink=callback(first))
    opened.batch(0, 1)
    opened.restart()
    opened.batch(1, 2)
    opened.engine.query_by_id(QueryId("q1")).deliver_to(callback(second))
    opened.engine.stop()
    assert (first.batches, second.batches) == ([(0, [(1,)])], [(1, [(2,)])])


def test_a_failing_sink_says_so_holds_nobody_up_and_misses_nothing(opened: Opened) -> None:
    failing, other = Received(), Received()
    failing.fails = True
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(failing))
    opened.engine.create_one("SELECT x FROM a", sink=callback(other))
    opened.batch(0, 1)
    opened.batch(1, 2)
    deliveries = opened.engine.deliveries
    wait_for(lambda: deliveries.error_of(query.id) == "the other side is down")
    wait_for(lambda: other.batches == [(0, [(1,)]), (1, [(2,)])])
    assert deliveries.oldest_undelivered() == 0
    failing.fails = False
    wait_for(lambda: not deliveries.error_of(query.id))
    wait_for(lambda: deliveries.oldest_undelivered() == 2)
    assert failing.batches == other.batches


def test_a_sink_that_hangs_holds_nobody_up(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PATIENCE", 0.2)
    go_on, other = threading.Event(), Received()
    opened.engine.create_one("SELECT x FROM a", sink=callback(lambda *_: go_on.wait(60) and None))
    opened.engine.create_one("SELECT x FROM a", sink=callback(other))
    opened.batch(0, 1)
    wait_for(lambda: other.batches)
    opened.engine.deliveries.stop()
    go_on.set()


def test_a_dropped_query_delivers_its_last_rows_and_no_more(opened: Opened) -> None:
    received = Received()
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(received))
    opened.batch(0, 1)
    query.drop()
    opened.batch(1, 2)
    opened.engine.stop()
    assert received.batches == [(0, [(1,)])]


def test_joined_rows_are_delivered(opened: Opened) -> None:
    received = Received()
    opened.engine.create_one(JOIN, sink=callback(received))
    opened.batch(0, 1)
    opened.batch(1, 2, 3, stream="b")
    opened.engine.stop()
    assert [(batch, sorted(found)) for batch, found in received.batches] == [(1, [(1, 2), (1, 3)])]


def test_no_sinks_need_nothing(opened: Opened) -> None:
    assert opened.engine.deliveries.oldest_undelivered() is None


# ---- Parquet


def test_each_batch_with_rows_is_one_file_and_one_manifest(opened: Opened, tmp_path: Path) -> None:
    opened.engine.create_one("SELECT x FROM a WHERE x > 1", sink=parquet(tmp_path / "out"))
    opened.batch(0, 2, 3)
    opened.batch(1, 1)
    opened.batch(2, 4)
    opened.engine.stop()
    assert files_of(tmp_path / "out") == {part(0): [2, 3], part(2): [4]}
    manifests = sorted((tmp_path / "out" / "_weft").glob("*.json"))
    assert [json.loads(path.read_text())["rows"] for path in manifests] == [2, 1]
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_a_restart_goes_on_by_itself(opened: Opened, tmp_path: Path) -> None:
    opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    opened.batch(0, 1)
    opened.restart()
    opened.batch(1, 2)
    opened.engine.stop()
    assert files_of(tmp_path / "out") == {part(0): [1], part(1): [2]}


def test_a_crash_between_file_and_cursor_delivers_no_row_twice(opened: Opened, tmp_path: Path) -> None:
    query = opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    opened.batch(0, 1)
    opened.engine.deliveries.stop()
    opened.crash()
    cursor = opened.engine.core.directory.path("sinks", f"{query.id}.json")
    saved = opened.engine.core.directory.read_json("sinks", cursor.name)
    opened.engine.deliveries.stop()
    opened.engine.core.directory.write_json(saved | {"delivered": 0}, "sinks", cursor.name)
    opened.restart()
    opened.engine.deliveries.stop()
    assert files_of(tmp_path / "out") == {part(0): [1]}
    assert opened.engine.core.directory.read_json("sinks", cursor.name)["delivered"] == 1


def test_a_directory_belongs_to_one_query(opened: Opened, tmp_path: Path) -> None:
    first = opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    with pytest.raises(InvalidSetting, match="is the sink of another query"):
        opened.engine.create_one("SELECT k FROM a", sink=parquet(tmp_path / "out"))
    first.deliver_to(parquet(tmp_path / "out"))
    assert set(opened.engine.deliveries._running) == {first.id}


def test_a_sink_of_a_query_that_never_lived_is_forgotten(opened: Opened, tmp_path: Path) -> None:
    """It was waiting for a boundary when the process died: its id will be somebody else's."""
    opened.engine.core.begin(0, partitions=1)
    lost = opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "lost"))
    opened.crash()
    assert opened.engine.core.roster.names == {}
    found = opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    assert found.id == lost.id
    opened.batch(0, 7)
    opened.engine.stop()
    assert files_of(tmp_path / "out") == {part(0): [7]}
    assert files_of(tmp_path / "lost") == {}


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(("step", "lives"), [("note", False), ("claim", False), ("change", False), ("after", True)])
def test_a_crash_leaves_a_query_with_its_sink_or_neither(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, lives: bool
) -> None:
    """Before this was so, a crash after the changelog's entry left a query that delivered nothing."""

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        for module in (sending, delivery):
            patch.setattr(module, "forget", lambda *_: None)  # the dead do not tidy up
        where: tuple[Any, str] = {
            "note": (Directory, "write_json"),
            "claim": (delivery, "claim_for"),
            "change": (Directory, "append_json"),
            "after": (Core, "_fold_change"),
        }[step]
        patch.setattr(*where, die)
        with pytest.raises(Killed):
            opened.engine.create_one("SELECT x FROM a", name="q", sink=parquet(tmp_path / "out"))
        opened.engine.core.directory.close()
    opened.open()
    assert set(opened.engine.core.roster.names) == ({"q"} if lives else set())
    if not lives:
        opened.engine.create_one("SELECT x FROM a WHERE x < 0", name="other", sink=parquet(tmp_path / "elsewhere"))
        opened.engine.create_one("SELECT x FROM a", name="q", sink=parquet(tmp_path / "out"))
    opened.engine.batch(0, 7)
    opened.engine.stop()
    assert files_of(tmp_path / "out") == {part(0): [7]}
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_nothing_is_created_if_one_of_the_sinks_cannot_be_had(opened: Opened, tmp_path: Path) -> None:
    opened.engine.create_one("SELECT x FROM a", name="first", sink=parquet(tmp_path / "taken"))
    bound = bind("SELECT x FROM a", opened.engine.core.streams)
    with pytest.raises(InvalidSetting, match="is the sink of another query"):
        opened.engine.create([("free", bound), ("taken", bound)], sink=lambda query: parquet(tmp_path / query.name))
    assert set(opened.engine.core.roster.names) == {"first"}
    opened.engine.create_one("SELECT x FROM a", name="again", sink=parquet(tmp_path / "free"))
    opened.batch(0, 7)
    opened.engine.stop()
    assert files_of(tmp_path / "free") == files_of(tmp_path / "taken") == {part(0): [7]}


def test_a_query_dropped_before_its_boundary_gives_its_directory_back(opened: Opened, tmp_path: Path) -> None:
    opened.engine.core.begin(0, partitions=1)
    opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out")).drop()
    opened.engine.core.abort()
    wait_for(lambda: not list(opened.engine.core.directory.path("sinks").iterdir()))
    opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    opened.batch(0, 7)
    opened.engine.stop()
    assert files_of(tmp_path / "out") == {part(0): [7]}


def test_a_directory_that_is_gone_holds_up_no_start(opened: Opened, tmp_path: Path) -> None:
    query = opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "disk" / "out"))
    opened.engine.stop()
    shutil.rmtree(tmp_path / "disk")
    (tmp_path / "disk").write_text("not a directory")
    opened.restart()
    opened.batch(0, 7)
    wait_for(lambda: opened.engine.deliveries.error_of(query.id))
    (tmp_path / "disk").unlink()
    wait_for(lambda: not opened.engine.deliveries.error_of(query.id))
    assert files_of(tmp_path / "disk" / "out") == {part(0): [7]}


def test_a_sink_that_cannot_be_had_leaves_the_one_there_is(opened: Opened, tmp_path: Path) -> None:
    first = opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "first"))
    opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "second"))
    with pytest.raises(InvalidSetting, match="is the sink of another query"):
        first.deliver_to(parquet(tmp_path / "second"))
    opened.batch(0, 7)
    opened.engine.stop()
    assert files_of(tmp_path / "first") == {part(0): [7]}


def test_relative_paths_stay_where_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parquet("out").path == str(tmp_path / "out")


@pytest.mark.parametrize("path", ["s3a://bucket/out", Path("s3a://bucket/out"), "file:/out"])
def test_a_sink_of_parquet_files_is_on_this_machine(path: str | Path) -> None:
    """As it was: the files went to a folder "s3a:" below the current one."""
    with pytest.raises(InvalidSetting, match=r'sink path "(s3a|file):.*" is not a local path'):
        parquet(path)
