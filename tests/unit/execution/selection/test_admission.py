"""Which rows take part: one that is too far ahead is set aside, and hurts nobody."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.engine_sample import EPOCH, JOIN, SCHEMA, open_core, reports_of, rows, stream
from tests.support.harness import CoreHarness
from weft.engine.inputs.ahead import AheadSamples
from weft.engine.inputs.clocks import Clocks
from weft.execution.items import TagReport
from weft.execution.selection.admission import MOST_SAMPLES

NOW, HOUR = 1_000_000.0, 3600
FAR = int(NOW) + HOUR + 1


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    streams = [replace(stream(name), max_ahead=timedelta(hours=1)) for name in "ab"]
    found = open_core(tmp_path / "state", streams=streams)
    found.core.clocks.now = lambda: NOW  # type: ignore[method-assign]
    return found


def test_a_row_far_in_the_future_ends_nothing(harness: CoreHarness) -> None:
    """The whole of C2: watermark, late rows, other streams' state, where new queries begin."""
    harness.create("SELECT x FROM a", "all")
    harness.create(JOIN, "j")
    now = int(NOW)
    harness.batch({"a": [rows((now, 1, 1))], "b": [rows((now, 1, 7))]})
    harness.batch({"a": [rows((FAR, 1, 2), (2**31, 1, 3))]})
    totals = dict(harness.core.inventory.results[-1].streams)["a"]
    assert (totals.rows, totals.ahead, totals.late, totals.max_time) == (2, 2, 0, None)
    harness.reopen(2)
    harness.core.clocks.now = lambda: NOW  # type: ignore[method-assign]
    harness.create("SELECT x FROM a", "new")
    harness.batch({"a": [rows((now + 1, 1, 4), (now + HOUR, 2, 5))]})
    assert sorted(harness.results("all")) == [(1,), (4,), (5,)]
    assert sorted(harness.results("new")) == [(4,), (5,)]
    assert sorted(harness.results("j")) == [(1, 7), (4, 7)]
    start = harness.complete_from("new")
    assert start is not None
    assert (start - EPOCH).total_seconds() < now + 1


def test_the_limit_is_fixed_when_the_batch_begins(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a", "all")
    begun = harness.core.begin(0, partitions=1)
    assert begun is not None
    harness.core.clocks.now = lambda: NOW + 10 * HOUR
    for _ in range(2):  # a task that is tried again decides the same
        reports = reports_of(*begun, {"a": [rows((FAR, 1, 2))]})
        assert [report.ahead for report in reports if isinstance(report, TagReport)] == [1]


def test_a_stream_all_of_whose_rows_are_ahead_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("weft.engine.inputs.clocks.time.monotonic", lambda: clock[0])
    streams = [replace(stream(name), idle_timeout=timedelta(seconds=60), max_ahead=timedelta()) for name in "ab"]
    harness = open_core(tmp_path / "state", streams=streams)
    harness.core.clocks.now = lambda: 1000.0
    harness.create("SELECT COUNT(*) FROM a [TUMBLE 5 SECONDS] p JOIN b [TUMBLE 5 SECONDS] q ON p.k = q.k", "q")
    harness.batch({"a": [rows((1, 1, 1))], "b": [rows((2, 1, 1))]})
    for second in (20, 40):
        clock[0] += 59
        harness.batch({"a": [rows((second, 1, 1))], "b": [rows((second + 10**6, 1, 1))]})
    assert len(harness.results("q")) == 1


def test_no_limit_and_no_clock_where_a_stream_wants_none() -> None:
    streams = {"a": replace(stream("a"), max_ahead=timedelta(seconds=1)), "b": stream("b")}
    clocks = Clocks()
    for now, limit in ((2.5, 3_500_000), (1e300, 2**63 - 1)):
        clocks.now = lambda now=now: now  # type: ignore[method-assign, misc]
        assert clocks.ahead_limits(streams) == {"a": limit}


def test_a_few_rows_are_kept_to_be_looked_at_cut_short(harness: CoreHarness) -> None:
    harness.create("SELECT x, s, k FROM a", "all")
    begun = harness.core.begin(0, partitions=1)
    assert begun is not None
    far = [(FAR + n, n, n, None, "ä" * 1000) for n in range(MOST_SAMPLES)]
    reports = reports_of(*begun, {"a": [rows(*far), rows(*far), rows((1, 1, 1))]})
    samples = AheadSamples(harness.core.directory)
    samples.keep(0, reports)
    kept = harness.core.directory.read_json("ahead", "a.json")
    assert (kept["batch"], kept["count"], len(kept["rows"])) == (0, 2 * MOST_SAMPLES, MOST_SAMPLES)
    assert kept["rows"][1] == {"ts": "1970-01-12 14:46:42+00:00", "k": "1", "j": None, "x": "1", "s": "ä" * 200}
    samples.keep(1, reports)
    assert harness.core.directory.read_json("ahead", "a.json")["batch"] == 0, "not with every batch"


def test_a_sample_can_have_any_type_and_any_time(harness: CoreHarness) -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([2**63 - 1], pa.int64()).cast(SCHEMA.types[0]), *(pa.nulls(1, type_) for type_ in SCHEMA.types[1:])],
        schema=SCHEMA,
    )
    harness.create("SELECT x FROM a", "all")
    harness.batch({"a": [batch]})
    assert dict(harness.core.inventory.results[-1].streams)["a"].ahead == 1
