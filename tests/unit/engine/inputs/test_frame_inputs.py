"""Micro-batches of DataFrames: what Spark repeats is let go, and what does not follow is refused, not lost."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_sample import open_core
from weft.engine.inputs.inputs import Inputs
from weft.errors import StateCorrupt, WeftError
from weft.spark.stream_frames import Arrival, Frames


@pytest.fixture
def inputs(tmp_path: Path) -> Iterator[Inputs]:
    harness = open_core(tmp_path / "state")
    harness.create("SELECT x FROM a", "q")
    core = harness.core
    yield Inputs(core, Frames(core.directory.path("spark"), arrived=lambda: None), threading.Event())
    core.directory.close()


def arrive(inputs: Inputs, number: int) -> Arrival:
    frame: Any = None
    arrival = Arrival("a", frame, number)
    inputs.frames._take(arrival)
    return arrival


def released_with(arrival: Arrival) -> WeftError | None:
    assert arrival._released.is_set()
    try:
        arrival.wait()
    except WeftError as error:
        return error
    return None


def test_the_next_one_is_offered_and_a_repeated_one_is_let_go(inputs: Inputs) -> None:
    arrive(inputs, 0)
    assert list(inputs._new_arrivals()) == ["a"]
    inputs.core.offsets["a"] = 3
    arrive(inputs, 4)
    assert list(inputs._new_arrivals()) == ["a"]
    repeated = arrive(inputs, 3)
    assert not inputs._new_arrivals()
    assert released_with(repeated) is None
    assert not inputs.faults()


@pytest.mark.parametrize("number", [0, 2, 5])
def test_what_does_not_follow_is_refused_and_not_committed_by_spark(inputs: Inputs, number: int) -> None:
    inputs.core.offsets["a"] = 3
    arrival = arrive(inputs, number)
    assert not inputs._new_arrivals()
    error = inputs.faults()["a"]
    assert isinstance(error, StateCorrupt)
    assert "spark/a" in str(error)
    assert released_with(arrival) is error


class Started(Frames):
    """Knows only that it was asked to start."""

    def start(self, stream: str, trigger: str) -> None:
        self.started = stream


@pytest.mark.parametrize("gone", ["spark", "spark/a", "spark/a/offsets", "spark/a/offsets/0"])
def test_a_stream_whose_checkpoint_is_gone_is_not_read(inputs: Inputs, gone: str) -> None:
    """Even the first micro-batch, which Spark would give the number of the one that is committed."""
    frames = inputs.frames = Started(inputs.core.directory.path("spark"), arrived=lambda: None)
    frame: Any = None
    frames.attached["a"] = frame
    checkpoint = inputs.core.directory.path("spark", "a", "offsets")
    checkpoint.mkdir(parents=True)
    (checkpoint / "0").write_text("v1")
    inputs.core.offsets["a"] = 0
    inputs.start("0 seconds")
    assert frames.started == "a"
    frames.started = ""
    path = inputs.core.directory.path(gone)
    if path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path)
    inputs.start("0 seconds")
    assert not frames.started
    error = inputs.faults()["a"]
    assert isinstance(error, StateCorrupt)
    assert "spark/a" in str(error)
