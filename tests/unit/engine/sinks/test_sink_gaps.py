"""A sink never skips rows in silence: a gap stops it, durably, until somebody resumes it, and is written down."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_alone import Opened, Received, files_of, part, wait_for
from tests.support.engine_sample import STREAMS
from weft.engine.results.leases import kept_from
from weft.engine.results.retention import Keep
from weft.engine.sinks import sinks
from weft.engine.sinks.sinks import callback, parquet
from weft.errors import InvalidSetting, ResultsGone
from weft.plan.changelog import QueryId
from weft.sql import bind

SOON = Keep(0.0, None, 0, None)
"""Results are kept for nobody, and for sinks until the next batch."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    found = Opened(tmp_path, SOON)
    yield found
    found.engine.stop()


def batches(opened: Opened, *numbers: int) -> None:
    for number in numbers:
        opened.now += 1.0
        opened.batch(number, number)


def broken(folder: Path) -> None:
    """Nothing can be written there."""
    if folder.exists():
        shutil.move(folder, folder.with_name("aside"))
    folder.write_text("a file")


def mended(folder: Path) -> None:
    folder.unlink()
    shutil.move(folder.with_name("aside"), folder)


def a_sink_that_missed_rows(opened: Opened, folder: Path) -> QueryId:
    """Batch 0 is delivered, batches 1 to 4 fail, and are not kept for that long."""
    query = opened.engine.create_one("SELECT x FROM a", name="q", sink=parquet(folder))
    batches(opened, 0)
    wait_for(lambda: opened.engine.deliveries._running[query.id].needs == 1)
    broken(folder)
    for number in range(1, 5):
        batches(opened, number)
        if number == 1:
            wait_for(lambda: query.sink_error)
    mended(folder)
    wait_for(lambda: query.sink_state == "failed")
    return query.id


def test_a_gap_stops_a_sink_until_somebody_resumes_it(opened: Opened, tmp_path: Path) -> None:
    """Before, rows of batches 1 to 4 were skipped, the error vanished, and nothing said so."""
    folder = tmp_path / "out"
    id_ = a_sink_that_missed_rows(opened, folder)
    for _ in range(2):
        query = opened.engine.query_by_id(id_)
        batches(opened, opened.engine.core.next_batch)
        assert query.sink_state == "failed"
        assert "it is too slow, or down" in query.sink_error
        assert opened.engine.deliveries.oldest_undelivered() is None
        opened.restart()  # it is durable
    assert files_of(folder) == {part(0): [0]}
    query = opened.engine.query_by_id(id_)
    first = query.results_from
    query.resume_sink()
    assert query.sink_error == ""
    wait_for(lambda: part(6) in files_of(folder))
    batches(opened, 7)
    opened.engine.deliveries.stop()
    assert {part(0), part(7)} <= set(files_of(folder))
    (gap,) = json.loads((folder / "_weft" / "gaps.json").read_text())
    assert (gap["from"], gap["until"]) == (1, first)
    assert "it is too slow" in gap["reason"]
    assert set(files_of(folder)) == {part(0), *(part(number) for number in range(first, 8))}


def test_the_gap_is_in_the_querys_view_too(opened: Opened, tmp_path: Path) -> None:
    query = opened.engine.query_by_id(a_sink_that_missed_rows(opened, tmp_path / "out"))
    query.resume_sink()
    assert [(gap["from"], gap["until"]) for gap in query.sink_gaps] == [(1, query.results_from)]
    opened.restart()
    assert [gap["from"] for gap in opened.engine.query_by_id(query.id).sink_gaps] == [1]


def test_what_has_not_failed_is_resumed_harmlessly_and_without_a_sink_it_is_an_error(opened: Opened) -> None:
    received = Received()
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(received))
    alone = opened.engine.create_one("SELECT x FROM a")
    query.resume_sink()
    batches(opened, 0)
    wait_for(lambda: received.batches)
    assert query.sink_gaps == []
    assert (alone.sink_state, alone.sink_error) == ("", "")
    with pytest.raises(InvalidSetting, match="has no sink"):
        alone.resume_sink()


def test_a_sink_that_hangs_is_not_resumed_beside_itself(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.engine.sinks.delivery._LONGEST_BUSY", 0.05)
    busy, go_on = threading.Event(), threading.Event()

    def take(*_: object) -> None:
        busy.set()
        go_on.wait(60)

    query = opened.engine.create_one("SELECT x FROM a", sink=callback(take))
    batches(opened, 0)
    busy.wait(60)
    opened.engine.deliveries.fail(query.id, "somebody says so")
    with pytest.raises(InvalidSetting, match="still busy with batch 0"):
        query.resume_sink()
    go_on.set()


# ---- callbacks


def test_rows_are_kept_for_a_callback_that_is_not_attached_yet(tmp_path: Path) -> None:
    """Before, a callback held nothing back after a restart: what came before it was attached again was skipped."""
    opened = Opened(tmp_path, Keep(0.0, None, None, None))
    first, second = Received(), Received()
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(first))
    batches(opened, 0)
    wait_for(lambda: first.batches)
    opened.restart()
    assert opened.engine.query_by_id(query.id).sink_state == "detached"
    batches(opened, 1, 2, 3)
    opened.engine.query_by_id(query.id).deliver_to(callback(second))
    opened.engine.stop()
    assert [batch for batch, _ in second.batches] == [1, 2, 3]


def test_a_callback_that_comes_too_late_is_told(opened: Opened) -> None:
    first, second = Received(), Received()
    id_ = opened.engine.create_one("SELECT x FROM a", name="q", sink=callback(first)).id
    batches(opened, 0)
    wait_for(lambda: first.batches)
    opened.restart()
    batches(opened, 1, 2, 3)
    query = opened.engine.query_by_id(id_)
    assert query.sink_state == "failed"
    with pytest.raises(ResultsGone, match='rows of query "q" from batch 1 on are not kept any more'):
        query.deliver_to(callback(second))
    kept = query.results_from
    query.deliver_to(callback(second), skip_missing=True)
    wait_for(lambda: second.batches)
    batches(opened, 4)
    opened.engine.deliveries.stop()
    assert [batch for batch, _ in second.batches] == list(range(kept, 5))
    opened.restart()
    assert [(g["from"], g["until"]) for g in opened.engine.query_by_id(id_).sink_gaps] == [(1, kept)]


def test_resuming_a_callback_lets_it_be_attached_again(opened: Opened) -> None:
    received = Received()
    id_ = opened.engine.create_one("SELECT x FROM a", sink=callback(received)).id
    batches(opened, 0)
    wait_for(lambda: received.batches)
    opened.restart()
    batches(opened, 1, 2, 3)
    query = opened.engine.query_by_id(id_)
    query.resume_sink()
    query.deliver_to(callback(received))
    opened.engine.deliveries.stop()
    assert [batch for batch, _ in received.batches] == [0, *range(query.results_from, 4)]


def test_a_first_sink_that_comes_too_late_is_told(opened: Opened) -> None:
    query = opened.engine.create_one("SELECT x FROM a")
    batches(opened, 0, 1, 2)
    received = Received()
    with pytest.raises(ResultsGone, match="from batch 0 on are not kept any more"):
        query.deliver_to(callback(received))
    assert query.sink_state == ""
    query.deliver_to(callback(received), skip_missing=True)
    opened.engine.deliveries.stop()
    assert [batch for batch, _ in received.batches] == [2]


# ---- begin and end


def test_a_new_sink_begins_with_its_query(opened: Opened) -> None:
    """Before, it looked at all of history, and held up its removal meanwhile."""
    opened.kept = Keep(None, None, None, None)
    opened.restart()
    batches(opened, 0, 1, 2)
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(Received()))
    late = opened.engine.create_one("SELECT x FROM a")
    batches(opened, 3, 4)
    late.deliver_to(callback(Received()))
    notes = {each.id: note(opened, each.id) for each in (query, late)}
    assert min(note["delivered"] for note in notes.values()) >= 3


def note(opened: Opened, query: QueryId) -> dict[str, Any]:
    found: dict[str, Any] = opened.engine.core.directory.read_json("sinks", f"{query}.json")
    return found


def note_of(opened: Opened, query: QueryId) -> Path:
    return opened.engine.core.directory.path("sinks", f"{query}.json")


def test_nothing_is_left_of_a_sink_that_is_done(opened: Opened, tmp_path: Path) -> None:
    """Before, its file stayed, and every restart began a thread for it."""
    folder, received = tmp_path / "out", Received()
    queries = [
        opened.engine.create_one("SELECT x FROM a", sink=parquet(folder)),
        opened.engine.create_one("SELECT x FROM a", sink=callback(received)),
    ]
    batches(opened, 0)
    for query in queries:
        query.drop()
    wait_for(lambda: not opened.engine.deliveries._running)
    assert not list(opened.engine.core.directory.path("sinks").iterdir())
    wait_for(lambda: not [each for each in threading.enumerate() if each.name.startswith("weft-sink-q")])
    assert files_of(folder) == {part(0): [0]}
    opened.engine.core.checkpoint()
    opened.restart()
    assert (opened.engine.deliveries._running, opened.engine.deliveries._detached) == ({}, {})
    with pytest.raises(InvalidSetting, match="is the sink of another query"):
        opened.engine.create_one("SELECT x FROM a", sink=parquet(folder))
    opened.engine.query_by_id(queries[1].id).deliver_to(callback(received))
    wait_for(lambda: not opened.engine.deliveries._running)
    assert received.batches == [(0, [(0,)])], "what was delivered is not delivered again"


def test_what_a_crash_left_of_a_sink_that_is_done_starts_no_thread(opened: Opened, tmp_path: Path) -> None:
    query = opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    batches(opened, 0)
    wait_for(lambda: files_of(tmp_path / "out"))
    opened.engine.deliveries.stop()
    note = note_of(opened, query.id).read_bytes()
    query.drop()
    opened.restart()
    wait_for(lambda: not opened.engine.deliveries._running)
    note_of(opened, query.id).write_bytes(note)
    opened.engine.stop()
    opened.open()
    assert opened.engine.deliveries._running == {}
    assert not note_of(opened, query.id).exists()


def test_progress_without_rows_is_noted_before_results_go(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that gives no rows must not have a gap after a crash."""
    monkeypatch.setattr("weft.engine.sinks.delivery._NOTE_BATCHES", 3)
    opened.kept = Keep(0.0, None, None, None)
    opened.restart()
    query = opened.engine.create_one("SELECT x FROM a WHERE x < 0", sink=callback(Received()))
    delivery = opened.engine.deliveries._running[query.id]
    for number in range(9):
        batches(opened, number)
        wait_for(lambda: delivery.note.delivered == number + 1)  # noqa: B023
        needs = delivery.needs or 0
        assert kept_from(opened.engine.core) <= needs <= delivery.note.delivered
        assert note(opened, query.id)["delivered"] >= needs
    wait_for(lambda: (delivery.needs or 0) >= 6)


# ---- Parquet


def test_a_moved_state_directory_has_its_sinks(tmp_path: Path) -> None:
    """Before, marks had the absolute path: after a restore elsewhere each sink was another query's."""
    (tmp_path / "before").mkdir()
    opened = Opened(tmp_path / "before")
    query = opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    opened.batch(0, 0)
    opened.engine.stop()
    shutil.move(tmp_path / "before", tmp_path / "after")
    moved = Opened(tmp_path / "after")
    moved.batch(1, 1)
    moved.engine.stop()
    assert files_of(tmp_path / "out") == {part(0): [0], part(1): [1]}
    assert query.id == "q1"
    (tmp_path / "elsewhere").mkdir()
    other = Opened(tmp_path / "elsewhere")
    with pytest.raises(InvalidSetting, match="is the sink of another query"):
        other.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    other.engine.stop()


def test_a_mark_of_an_earlier_version_is_known(opened: Opened, tmp_path: Path) -> None:
    marks = tmp_path / "out" / "_weft"
    marks.mkdir(parents=True)
    (marks / "owner").write_text(f"{opened.engine.core.directory.root}:q1")
    opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    assert str(opened.engine.core.directory.root) not in (marks / "owner").read_text()


def test_files_and_folders_are_on_disk_before_they_are_noted(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = sinks._sync
    monkeypatch.setattr(sinks, "_sync", lambda path: (synced.append(path.name), sync(path))[1])
    opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    batches(opened, 0)
    opened.engine.deliveries.stop()
    assert synced[-4:] == [f".{part(0)}.tmp", "out", f".{0:012d}.json.tmp", "_weft"]


def test_many_rows_are_row_groups_of_one_file_and_several_calls(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "_TOGETHER_ROWS", 4)
    received = Received()
    opened.engine.create_one("SELECT x FROM a", sink=parquet(tmp_path / "out"))
    opened.engine.create_one("SELECT x FROM a", sink=callback(received))
    opened.batch(0, *range(10))
    opened.engine.deliveries.stop()
    assert files_of(tmp_path / "out") == {part(0): list(range(10))}
    assert sinks.pa.parquet.ParquetFile(tmp_path / "out" / part(0)).num_row_groups > 1
    assert [batch for batch, _ in received.batches] == [0] * len(received.batches)
    assert len(received.batches) > 1
    assert [row for _, found in received.batches for row in found] == [(number,) for number in range(10)]


def test_reasons_are_in_the_message_of_the_log(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    failing = Received()
    failing.fails = True
    bound = bind("SELECT x FROM a", STREAMS)
    opened.engine.create([("mine", bound)], sink=lambda _: callback(failing))
    batches(opened, 0)
    wait_for(lambda: "sink of query mine failed and will be tried again: the other side is down" in caplog.messages)


def test_batches_before_the_query_are_no_gap(opened: Opened) -> None:
    opened.kept = Keep(None, None, None, None)
    opened.restart()
    core = opened.engine.core
    core.begin(0, partitions=1)
    query = opened.engine.create_one("SELECT x FROM a", sink=callback(Received()))  # from the next batch on
    core.abort()
    batches(opened, 0, 1)
    query.deliver_to(callback(Received()), skip_missing=True)
    opened.engine.deliveries.fail(query.id, "somebody says so")
    query.resume_sink()
    assert query.sink_gaps == []
