"""The core: batches begin, commit, fail; requests wait; everything can be had again from the directory."""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support.engine_sample import JOIN, STREAMS, data_files, open_core, reports_of, rows, run_batch, stream
from tests.support.harness import CoreHarness
from weft.engine import core as core_module
from weft.engine.core import Core
from weft.errors import DiskFull, StateCorrupt
from weft.execution.stages import run_here
from weft.plan.query import BoundQuery
from weft.planner.joins.planners import choosing_planner
from weft.sql import bind
from weft.storage import compaction
from weft.storage.data_file import DataFile
from weft.storage.directory import Directory

SELECTION = bind("SELECT x FROM a", STREAMS)
BOTH_KEYS = JOIN + " AND p.j = q.j"


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state")


def new(name: str, query: BoundQuery = SELECTION) -> list[tuple[str | None, BoundQuery]]:
    return [(name, query)]


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)


# ---- batches


@pytest.mark.parametrize("batch", [0, 1, 4, 99])
def test_a_batch_out_of_order_means_files_that_do_not_belong_together(harness: CoreHarness, batch: int) -> None:
    for n in range(3):
        harness.batch({"a": [rows((n, 1, n))]})
    with pytest.raises(StateCorrupt, match=f"batch {batch} was to be run but the state directory is at batch 3"):
        harness.core.begin(batch, partitions=1)
    assert harness.core.running is None


def test_a_batch_that_is_committed_is_not_run_again(harness: CoreHarness) -> None:
    harness.batch({"a": [rows((0, 1, 1))]})
    assert harness.core.begin(0, partitions=1) is None
    harness.reopen(1)
    assert harness.core.begin(0, partitions=1) is None
    assert harness.core.begin(1, partitions=1) is not None


def test_nothing_of_a_failed_batch_counts(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "q")
    begun = harness.core.begin(0, partitions=2)
    assert begun is not None
    reports_of(*begun, {"a": [rows((0, 1, 1))]})
    harness.core.abort()
    assert (harness.core.running, harness.core.next_batch, harness.core.max_times) == (None, 0, {})
    assert harness.results("q") == []
    assert data_files(harness) == set(), "an attempt that failed leaves no files"
    harness.batch({"a": [rows((0, 1, 2))]})
    assert harness.results("q") == [(2,)]
    harness.reopen(2)
    assert len(data_files(harness)) == 1, "what the failed attempt wrote is rubbish"
    assert harness.results("q") == [(2,)]


def test_attempts_write_different_files(harness: CoreHarness) -> None:
    first = harness.core.begin(0, partitions=1)
    harness.core.abort()
    second = harness.core.begin(0, partitions=1)
    assert first is not None
    assert second is not None
    assert first[1].attempt != second[1].attempt
    assert first[0] is second[0], "the plan is compiled once"


def test_a_commit_that_cannot_be_written_did_not_happen(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.create("SELECT x FROM a", "q")
    begun = harness.core.begin(0, partitions=1)
    assert begun is not None
    reports = reports_of(*begun, {"a": [rows((0, 1, 1))]})
    with monkeypatch.context() as patched:
        full_disk(patched)
        with pytest.raises(DiskFull):
            harness.core.commit(0, reports)
    harness.core.abort()
    assert harness.results("q") == []
    harness.batch({"a": [rows((0, 1, 5))]})
    assert harness.results("q") == [(5,)]


def test_the_watermark_follows_the_largest_time_of_committed_batches(tmp_path: Path) -> None:
    harness = open_core(tmp_path, streams=[stream("a", lateness=3), stream("b")])
    assert harness.core.watermarks() == {}
    harness.batch({"a": [rows((10, 1, 1), (7, 1, 1))]})
    harness.batch({"a": [rows((8, 1, 1), (6.999999, 1, 1), (None, 1, 1))]})
    assert harness.core.watermarks() == {"a": 7_000_000}
    totals = dict(harness.core.inventory.results[-1].streams)["a"]
    assert (totals.rows, totals.late, totals.timeless, totals.max_time) == (3, 1, 1, 8_000_000)


# ---- requests


def test_a_request_between_batches_takes_effect_at_once(harness: CoreHarness) -> None:
    request = harness.core.submit(create=new("q"))
    assert request.done.is_set()
    assert harness.core.roster.latencies[request.created[0][0]] >= 0
    assert [record.created for record in harness.core.roster.records.values()] == [0]


def test_a_request_during_a_batch_waits_for_its_end(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "old")
    begun = harness.core.begin(0, partitions=2)
    assert begun is not None
    created = harness.core.submit(create=new("new"))
    dropped = harness.core.submit(drop=[harness.core.roster.names["old"]])
    assert not created.done.is_set()
    assert not dropped.done.is_set()
    ((query, _, _),) = created.created
    assert query not in harness.core.roster.latencies
    harness.core.commit(0, reports_of(*begun, {"a": [rows((0, 1, 1))]}))
    assert created.done.is_set()
    assert dropped.done.is_set()
    assert harness.core.roster.latencies[query] > 0
    harness.batch({"a": [rows((5, 1, 2))]})
    assert (harness.results("old"), harness.results("new")) == ([(1,)], [(2,)])
    (record,) = (r for r in harness.core.roster.records.values() if r.name == "new")
    assert (record.created, record.start) == (1, 1)


def test_a_request_during_a_batch_that_fails_takes_effect_then(harness: CoreHarness) -> None:
    harness.core.begin(0, partitions=1)
    request = harness.core.submit(create=new("q"))
    harness.core.abort()
    assert request.done.is_set()
    harness.batch({"a": [rows((0, 1, 1))]})
    assert harness.results("q") == [(1,)]


def test_a_request_that_waits_is_lost_in_a_crash_and_an_acknowledged_one_is_not(harness: CoreHarness) -> None:
    harness.core.submit(create=new("kept"))
    harness.core.begin(0, partitions=1)
    harness.core.submit(create=new("lost"))
    harness.reopen(1)
    assert set(harness.core.roster.names) == {"kept"}


def test_a_request_that_cannot_be_written_leaves_nothing(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    (query, _, _) = harness.core.submit(create=new("q")).created[0]
    with monkeypatch.context() as patched:
        full_disk(patched)
        with pytest.raises(DiskFull):
            harness.core.submit(create=new("r"), drop=[query])
    assert set(harness.core.roster.names) == {"q"}
    assert harness.core.roster.pending == []
    harness.core.submit(create=new("r"))
    harness.reopen(1)
    assert set(harness.core.roster.names) == {"q", "r"}


def test_a_query_starts_one_tick_after_all_that_was_seen_on_its_streams(harness: CoreHarness) -> None:
    harness.batch({"a": [rows((5, 1, 1))], "b": [rows((7, 1, 1))], "c": [rows((50, 1, 1))]})
    harness.create(JOIN, "join")
    harness.create("SELECT x FROM a", "select")
    starts = {record.name: record.start for record in harness.core.roster.records.values()}
    assert starts == {"join": 7_000_001, "select": 5_000_001}


def test_a_stream_declared_during_a_batch_is_there_in_the_next(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "q")
    begun = harness.core.begin(0, partitions=1)
    assert begun is not None
    harness.core.add_stream(stream("d"))
    harness.core.commit(0, reports_of(*begun, {"a": [rows((0, 1, 1))]}))
    harness.create("SELECT x FROM d", "r")
    run_batch(harness.core, {"d": [rows((0, 1, 2))]})
    assert (harness.results("q"), harness.results("r")) == ([(1,)], [(2,)])


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_declared_during_a_batch_costs_no_row(tmp_path: Path, seed: int) -> None:
    """The batch was committed with the plan of then: stores counted as complete that its tasks had not filled."""
    window = "[RANGE 1000 SECONDS]"
    text = f"SELECT p.x, q.x, r.x FROM a {window} p JOIN b {window} q ON p.k = q.k JOIN c {window} r ON q.k = r.k"
    found = []
    for declares in (False, True):
        choices, data = Random(seed), Random(seed)
        planner = choosing_planner(lambda options, choices=choices: choices.choice(list(options)))
        path = tmp_path / str(declares)
        harness = CoreHarness(path, [stream(name) for name in "abc"], partitions=1, planner=planner)
        harness.create(text, "q")
        for time in range(10):
            given = {
                name: [rows(*((time, data.randrange(3), data.randrange(100)) for _ in range(count)))]
                for name, count in (("a", 6), ("b", 1), ("c", 2))
            }
            begun = harness.core.begin(harness.core.next_batch, partitions=1)
            assert begun is not None
            reports = run_here(*begun, harness._tables(given))
            if declares and time in (3, 6):
                harness.core.add_stream(stream(f"n{time}"))
            harness.core.commit(time, reports)
        found.append(Counter(harness.results("q")))
    assert found[0] == found[1]
    assert found[0].total() > 100


def test_a_query_that_fails_ends_and_the_others_go_on(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a WHERE 10 div x > 1", "bad")
    harness.create("SELECT x FROM a", "good")
    harness.batch({"a": [rows((0, 1, 1))]})
    harness.batch({"a": [rows((1, 1, 0))]})
    harness.batch({"a": [rows((2, 1, 2))]})
    assert harness.results("bad") == [(1,)]
    assert harness.results("good") == [(1,), (0,), (2,)]
    (record,) = (r for r in harness.core.roster.records.values() if r.name == "bad")
    assert record.ended == 1
    assert "zero" in record.error
    harness.create("SELECT x FROM a WHERE x > 5", "bad")
    assert harness.core.roster.live[harness.core.roster.names["bad"]].slot == record.slot


def test_a_query_that_fails_when_it_is_read_keeps_what_it_had_before(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "bad")
    query = harness.core.roster.names["bad"]
    for time in range(3):
        harness.batch({"a": [rows((time, 1, time))]})
    harness.core.begin(3, partitions=1)
    harness.core.set_aside(query, 1, "by zero")
    harness.core.set_aside(query, 2, "by zero")
    assert harness.core.roster.records[query].ended is None, "it waits for the boundary"
    harness.core.abort()
    for _ in range(2):
        record = harness.core.roster.records[query]
        assert (record.ended, record.error) == (1, "by zero")
        assert harness.results("bad") == [(0,)]
        harness.reopen(1)


# ---- many queries


def test_query_sets_grow_and_shrink_with_a_thousand_queries(harness: CoreHarness) -> None:
    harness.create(JOIN, "first")
    harness.batch({"a": [rows((0, 1, 1))]})
    bound = bind(JOIN + " AND p.x = 2", STREAMS)
    crowd = [query for query, _, _ in harness.core.submit(create=[(f"n{n}", bound) for n in range(998)]).created]
    harness.create(JOIN, "last")
    assert harness.core.plan.words == 16
    harness.batch({"a": [rows((1, 1, 2))]})
    harness.core.submit(drop=crowd)
    assert harness.core.plan.words == 16, "the last one still has the highest slot"
    harness.batch({"a": [rows((2, 1, 3))]})
    harness.drop("last")
    assert harness.core.plan.words == 1
    assert harness.core.inventory.masks == {0: 1, 1: 1, 2: 1}
    harness.batch({"b": [rows((3, 1, 4))]})
    assert sorted(harness.results("first")) == [(1, 4), (2, 4), (3, 4)]
    assert harness.results("last") == harness.results("n2") == []
    harness.create("SELECT x FROM b", "next")
    assert harness.core.roster.live[harness.core.roster.names["next"]].slot == 1


# ---- recovery


def snapshot(core: Core) -> dict[str, object]:
    """Everything a core knows."""
    return {
        "roster": core.roster.to_json(),
        "names": dict(core.roster.names),
        "live": dict(core.roster.live),
        "inventory": core.inventory.to_json(),
        "references": dict(+core.inventory._references),
        "results": list(core.inventory.results),
        "max_times": core.max_times,
        "next": core.next_batch,
        "plan": core.plan,
    }


def settle(core: Core) -> None:
    """Free what a drop between batches has left, as the next commit would and a restart does."""
    core.inventory.collect(core.roster.live, core.streams, core.max_times)


STORY: list[Callable[[CoreHarness], object]] = [
    lambda h: h.create(JOIN, "q"),
    lambda h: h.batch({"a": [rows((0, 1, 1))], "b": [rows((0, 1, 2))]}),
    lambda h: h.create_many([(BOTH_KEYS, "r"), ("SELECT x FROM a WHERE 10 div x > 1", "fails")]),
    lambda h: h.batch({"a": [rows((1, 1, 3, 5)), rows((2, 2, 4, 5))]}),
    lambda h: h.core.checkpoint(),
    lambda h: h.batch({"b": [rows((2, 1, 5, 5))]}),
    lambda h: h.drop("q"),
    lambda h: h.create(JOIN, "q"),
    lambda h: h.batch({"a": [rows((3, 1, 0))], "b": [rows((3, 1, 6, 5))]}),
    lambda h: h.core.submit(create=new("s"), drop=[h.core.roster.names["r"]]),
    lambda h: h.batch({"a": [rows((4, 1, 7))], "b": [rows((4, 1, 7))]}),
    lambda h: h.core.trim_results(3),
    lambda h: h.batch({"a": [rows((5, 1, 8)), rows((5, 1, 9))]}),
    lambda h: h.batch({"b": [rows((60, 1, 8))]}),
    lambda h: h.core.checkpoint(),
    lambda h: h.core.trim_results(6),
    lambda h: h.drop("s"),
    lambda h: h.batch({"a": [rows((61, 1, 1))]}),
    lambda h: h.core.checkpoint(),
]


@pytest.mark.parametrize("checkpoint_every", [1, 50])
def test_after_a_crash_at_any_point_the_core_knows_what_it_knew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint_every: int
) -> None:
    monkeypatch.setattr(core_module, "CHECKPOINT_EVERY", checkpoint_every)
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    harness = open_core(tmp_path / "state")
    merged = 0
    for number, act in enumerate(STORY):
        act(harness)
        merged += sum(len(manifest.merged_away) for manifest in harness.core.inventory.results[-1:])
        shutil.copytree(tmp_path / "state", tmp_path / f"copy{number}")
        again = Core(Directory.open(tmp_path / f"copy{number}"))
        settle(harness.core)
        assert snapshot(again) == snapshot(harness.core), f"after step {number}"
        data = again.directory.path("data")
        files = {str(path.relative_to(data)) for path in data.rglob("*.arrow")}
        assert files <= data_files(harness), f"files after step {number}"
        results = {path for manifest in again.inventory.results for path in manifest.result_files()}
        for path in {*results, *again.inventory.buckets, *again.inventory.freed}:
            assert DataFile(data / path).parts, f"after step {number}"
        again.directory.close()
    assert merged
    assert [record.name for record in harness.core.roster.records.values() if record.error] == ["fails"]


def test_results_that_were_given_up_stay_so_after_a_crash(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "q")
    for n in range(4):
        harness.batch({"a": [rows((n, 1, n))]})
    harness.core.trim_results(2)
    harness.core.trim_results(1)
    for _ in range(2):
        assert harness.results("q") == [(2,), (3,)]
        harness.reopen(1)


def test_a_missing_manifest_is_said(harness: CoreHarness) -> None:
    for n in range(3):
        harness.batch({"a": [rows((n, 1, n))]})
    harness.core.directory.path("commits", "000000000001.json").unlink()
    with pytest.raises(StateCorrupt, match=r"commits/000000000001\.json\" is missing"):
        harness.reopen(1)


def test_long_histories_are_packed(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "CHECKPOINT_EVERY", 3)
    harness.create("SELECT x FROM a", "q")
    for n in range(8):
        harness.batch({"a": [rows((n, 1, n))]})
    assert [number for number, _ in harness.core.directory.numbered("commits")] == [6, 7]
    assert [number for number, _ in harness.core.directory.numbered("checkpoints")] == [6]
    assert [number for number, _ in harness.core.directory.numbered("changelog")] == []
    harness.reopen(3)
    assert harness.results("q") == [(n,) for n in range(8)]
