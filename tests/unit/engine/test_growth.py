"""What belongs to a stream that was dropped, or to a store that no plan has, goes with it."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.support.engine_sample import open_core, rows, stream
from weft.engine.inputs import ahead
from weft.engine.inputs.ahead import AheadSamples
from weft.engine.inputs.inputs import Inputs
from weft.execution.items import TagReport
from weft.spark.stream_frames import Frames
from weft.sql import bind


def test_a_dropped_stream_leaves_nothing_but_what_is_the_users(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state")
    core = harness.core
    inputs = Inputs(core, Frames(tmp_path / "spark", arrived=lambda: None), threading.Event())
    for number in range(5):
        name = f"s{number}"
        core.add_stream(stream(name))
        core.clocks.note([name])
        core.clocks.idle(core.streams)
        inputs._compared[name] = 1.0
        core.directory.write_json({}, "ahead", f"{name}.json")
        core.directory.path("quarantine", name).mkdir()
        core.drop_stream(name)
        inputs.forget(name)
    assert not inputs._compared
    assert set(core.clocks._had_rows) <= set("abc")
    assert not list(core.directory.path("ahead").iterdir())
    assert len(list(core.directory.path("quarantine").iterdir())) == 5, "these rows are nowhere else"
    core.directory.close()


def test_when_samples_were_written_is_known_of_the_last_minute_only(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    harness = open_core(tmp_path / "state")
    samples = AheadSamples(harness.core.directory)
    now = 0.0
    monkeypatch.setattr(ahead.time, "monotonic", lambda: now)
    for number in range(10):
        now = 100.0 * number
        samples.keep(number, [TagReport(f"s{number}", ahead=1)])
    assert list(samples._written) == ["s9"]


def test_what_was_measured_of_stores_goes_with_them(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state")
    core = harness.core
    wide = (
        "SELECT p.x AS px FROM a [RANGE 6 SECONDS] p JOIN b [RANGE 6 SECONDS] q ON p.k = q.k "
        "JOIN c [RANGE 6 SECONDS] r ON q.j = r.j WHERE p.x > {0} AND q.x > {0} AND r.x > {0}"
    )
    sizes = []
    for number in range(6):
        core.submit(create=[("w", bind(wide.format(number), core.streams))])
        harness.batch({name: [rows((number, 1, 9, 1))] for name in "abc"})
        core.planned()
        sizes.append(len(core.planning._keys))
        harness.drop("w")
    core.planned()
    assert sizes[0] > 0
    assert len(core.planning._keys) == 0
    assert max(sizes) == sizes[0]
