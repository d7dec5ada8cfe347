"""A batch whose manifest is in place is committed, whatever fails after that."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from weft.engine.batches.batches import Batches, BatchSettings
from weft.engine.core import Core
from weft.engine.inputs.declare import declare_stream, files
from weft.engine.inputs.inputs import Inputs
from weft.errors import BatchFailed
from weft.execution.program import BatchTask, Program
from weft.spark.stream_frames import Frames
from weft.sql import bind
from weft.storage.directory import Directory
from weft.storage.journal import Manifest


class Runner:
    """Writes a file for a batch and reports nothing."""

    def __init__(self) -> None:
        self.files: list[Path] = []

    def run(self, _: Mapping[str, Any], __: Program, task: BatchTask) -> list[dict[str, Any]]:
        path = Path(task.data, task.new_file("bucket"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("rows")
        self.files.append(path)
        return []


class Retention:
    """Frees nothing, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def after(self, _: Manifest) -> None:
        if self.error is not None:
            raise self.error


def batches_of(root: Path, retention: Any) -> tuple[Batches, Inputs, Core, Any]:
    """An engine's batches over one file, with tasks that do nothing."""
    (root / "in").mkdir()
    (root / "in" / "one.parquet").write_text("whatever")
    core = Core(Directory.open(root / "state"))
    source = files(root / "in", schema="ts TIMESTAMP, v INT")
    declared = dict.fromkeys(("retain", "max_ahead"), None) | {"lateness": timedelta(0), "idle_timeout": timedelta(9)}
    core.add_stream(declare_stream("a", source, time="ts", existing=None, **declared))  # type: ignore[arg-type]
    core.submit(create=[("q", bind("SELECT v FROM a", core.streams))])
    inputs = Inputs(core, Frames(root / "spark", arrived=lambda: None), threading.Event())
    runner: Any = Runner()
    batches = Batches(core, runner, inputs, retention, settings=BatchSettings(1, timedelta(minutes=10)))
    inputs.start("0 seconds")
    return batches, inputs, core, runner


def test_tidying_up_that_fails_is_done_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, inputs, core, runner = batches_of(tmp_path, Retention())

    def fails() -> None:
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(core, "_collect", fails)
    assert batches.run(inputs.look()) is not None
    assert (core.next_batch, len(runner.files)) == (1, 1)
    assert not inputs.look(), "its files are not offered again"
    core.directory.close()


def test_its_files_stay_and_its_inputs_are_not_read_again(tmp_path: Path) -> None:
    batches, inputs, core, runner = batches_of(tmp_path, Retention(OSError("the disk is on fire")))
    with pytest.raises(BatchFailed, match="on fire") as caught:
        batches.run(inputs.look())
    assert "is committed" in caught.value.hint
    assert (core.next_batch, len(runner.files)) == (1, 1), "it is not run twice"
    assert not inputs.look(), "its files are not offered again"
    core.directory.close()


def test_a_stream_that_was_dropped_since_it_was_offered_is_left_out(tmp_path: Path) -> None:
    """As it was: the tasks were given files of a stream that nobody knows, and the engine ended."""
    batches, inputs, core, runner = batches_of(tmp_path, Retention())
    offer = inputs.look()
    core.submit(drop=[core.roster.names["q"]])
    core.drop_stream("a")
    inputs.forget("a")
    assert batches.run(offer) is None
    assert (core.next_batch, runner.files) == (0, [])
    core.directory.close()
