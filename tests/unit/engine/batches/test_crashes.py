"""A batch that ends the process again and again leads to the query with which it does that."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_sample import stream
from weft.engine.batches.batches import Batches, BatchSettings
from weft.engine.batches.crashes import Crashes, Note
from weft.engine.core import Core
from weft.engine.inputs.inputs import Inputs, Offer
from weft.errors import OutOfMemory, SparkLost
from weft.execution.input.listing import FileRef
from weft.execution.program import BatchTask, Program
from weft.spark.stream_frames import Frames
from weft.sql import bind
from weft.storage.directory import Directory


class Died(BaseException):
    """The process dies here: nothing that comes after is done."""


class Runner:
    """Dies if one of the queries is the deadly one."""

    def __init__(self, core: Core, *, as_spark: bool, first_fails: bool) -> None:
        self._core, self._as_spark, self._first_fails = core, as_spark, first_fails
        self.runs: list[int] = []
        self.batches: Batches | None = None

    def run(self, _: Mapping[str, Any], program: Program, task: BatchTask) -> list[dict[str, Any]]:
        live = {each.slot: each.record.name for each in self._core.roster.live.values()}
        names = {name for slot, name in live.items() if program.live >> slot & 1}
        self.runs.append(len(names))
        if "deadly" in names and self._first_fails and len(self.runs) == 1:
            raise OutOfMemory(f"batch {task.batch} failed: a task needed more memory than it may have")
        if "deadly" in names and self._as_spark:
            raise SparkLost(f"batch {task.batch} failed: Spark's Java process does not answer")
        if "deadly" in names:
            assert self.batches is not None
            self.batches._crashes._path = Path(
                "/dev/null/nowhere"
            )  # a process that has died writes and removes nothing
            raise Died
        return []

    def source_error(self, *_: object) -> str:
        return ""

    def cancel(self) -> None:
        """Nothing runs."""


class Keeps:
    """Keeps everything."""

    def after(self, _: object) -> None:
        """Frees nothing."""


def process(root: Path, *, as_spark: bool, first_fails: bool = False) -> tuple[Batches, Core, Runner, Offer]:
    """A new process on the same state directory."""
    directory = Directory.open(root / "state")
    core = Core(directory)
    if not core.streams:
        core.add_stream(stream("a"))
    runner = Runner(core, as_spark=as_spark, first_fails=first_fails)
    inputs = Inputs(core, Frames(root / "spark", arrived=lambda: None), threading.Event())
    settings = BatchSettings(1, timedelta(seconds=60))
    made: Any = runner
    keeps: Any = Keeps()
    runner.batches = Batches(core, made, inputs, keeps, settings=settings)
    return runner.batches, core, runner, Offer({"a": (FileRef("f", 1, 1),)}, {})


@pytest.mark.parametrize(("as_spark", "first_fails"), [(True, False), (False, False), (True, True), (False, True)])
@pytest.mark.parametrize("deadly", [0, 4, 9])
def test_the_deadly_query_is_found_over_several_processes(
    tmp_path: Path, deadly: int, as_spark: bool, first_fails: bool
) -> None:
    """`first_fails`: the first attempt of a process lacks memory, and the search for the query ends it."""
    batches, core, _, offer = process(tmp_path, as_spark=as_spark, first_fails=first_fails)
    names = ["deadly" if number == deadly else f"n{number}" for number in range(10)]
    core.submit(create=[(name, bind("SELECT x FROM a", core.streams)) for name in names])
    deaths = 0
    while deaths < 12:
        try:
            batches.run(offer)
            break
        except (Died, SparkLost):
            deaths += 1
            core.directory.close()
            batches, core, _, offer = process(tmp_path, as_spark=as_spark, first_fails=first_fails)
    assert core.next_batch == 1
    assert sorted(core.roster.names) == sorted(set(names) - {"deadly"})
    failed = core.roster.records.latest("deadly")
    assert failed is not None
    assert "has ended the process" in failed.error
    assert not (tmp_path / "state" / "running.json").exists()


def test_processes_that_are_killed_for_other_reasons_blame_nobody(tmp_path: Path) -> None:
    batches, core, runner, offer = process(tmp_path, as_spark=False)
    core.submit(create=[(f"n{number}", bind("SELECT x FROM a", core.streams)) for number in range(10)])
    for _ in range(3):
        Crashes(core.directory.root).begin(0)
        core.directory.close()
        batches, core, runner, offer = process(tmp_path, as_spark=False)
    batches.run(offer)
    assert core.next_batch == 1
    assert len(core.roster.live) == 10
    assert runner.runs, "the batch was tried"


def test_a_damaged_note_is_left_out_of_account(tmp_path: Path) -> None:
    (tmp_path / "running.json").write_text('{"batch": 3, "de')
    assert Crashes(tmp_path).of(3) == Note(3)
    (tmp_path / "running.json").write_text('{"batch": 3, "deaths": "many"}')
    assert Crashes(tmp_path).of(3) == Note(3)
    (tmp_path / "running.json").write_text('{"batch": 2, "deaths": 5}')
    assert Crashes(tmp_path).of(3) == Note(3)
