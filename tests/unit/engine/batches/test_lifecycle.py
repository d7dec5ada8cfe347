"""How an engine is, seen from outside: whatever hangs is noticed, and what has passed is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft.engine.batches.batches import Batches, BatchSettings
from weft.engine.batches.lifecycle import Running
from weft.engine.batches.progress import PATIENCE, Progress
from weft.engine.catalog import Catalog
from weft.engine.core import Core
from weft.engine.engine import Engine
from weft.engine.inputs.declare import declare_stream, files
from weft.engine.inputs.inputs import Inputs
from weft.errors import StateCorrupt
from weft.execution.program import BatchTask, Program
from weft.service.health import HealthTracker, Standing, State, observe_engine
from weft.spark.stream_frames import Frames
from weft.sql import bind
from weft.storage.directory import Directory
from weft.storage.journal import Manifest

LIMIT = 600.0
BAD_FILE = 'BadFile: file "{path}" cannot be read as parquet [bad_file]'


class Runner:
    """Runs no tasks: reports nothing, or fails as it is told to."""

    def __init__(self) -> None:
        self.error = ""
        self.hang: Callable[[], object] = lambda: None

    def run(self, _: Mapping[str, Any], __: Program, ___: BatchTask) -> list[dict[str, Any]]:
        if self.error:
            raise RuntimeError(self.error)
        return []

    def after(self, _: Manifest) -> None:
        """Stands where results are given up after a batch."""
        self.hang()

    def cancel(self) -> None:
        raise AssertionError("not asked for here")


class Site:
    """An engine's loop over streams "a" and "b", turned by the test itself, with a service's look at it."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.patch, self.now = root, patch, 1000.0
        self.core = Core(Directory.open(root / "state"))
        for name in "ab":
            (root / name).mkdir()
            source = files(root / name, schema="ts TIMESTAMP, v INT", on_bad_file="fail")
            declared = declare_stream(name, source, time="ts", lateness=timedelta(0), retain=None, existing=None)
            self.core.add_stream(declared)
        self.query("a")
        arrived = threading.Event()
        self.inputs = Inputs(self.core, Frames(root / "spark", arrived=arrived.set), arrived)
        self.runner = Runner()
        runner: Any = self.runner
        longest = timedelta(seconds=LIMIT)
        self.batches = Batches(self.core, runner, self.inputs, runner, settings=BatchSettings(1, longest))
        self.batches.attempts.progress = Progress(clock=lambda: self.now)
        self.running = Running(self.core, None, self.inputs, self.batches, longest=longest)
        self._engine = cast(
            Engine,
            SimpleNamespace(
                catalog=Catalog(self.core), health=self.running.health, error=None, stream_errors=self.inputs.faults
            ),
        )
        self._pulse = HealthTracker(batch_limit=LIMIT, clock=lambda: self.now)

    def query(self, stream: str) -> None:
        self.core.submit(create=[(f"of_{stream}", bind(f"SELECT v FROM {stream}", self.core.streams))])

    def write(self, file: str) -> None:
        (self.root / file).write_text("whatever")

    def play(self, *steps: Callable[[], object]) -> None:
        """Turn the loop once before each step, which is taken while the loop waits."""
        left, pause = list(steps), self.running._pause

        def step(seconds: float, *, wake: bool) -> None:
            pause(seconds, wake=wake)
            left.pop(0)()
            if not left:
                self.running._stop.set()

        self.patch.setattr(self.running, "_pause", step)
        self._pulse.started(self.core.next_batch)
        self.running._begin()
        self.running._thread = threading.current_thread()
        self.inputs.start("0 seconds")
        self.running._loop(0.0)

    def standing(self) -> Standing:
        return self._pulse.seen(observe_engine(self._engine))

    def is_idle(self) -> None:
        assert self.running.health().state == "idle"
        assert self.standing().ready

    def is_failing(self) -> None:
        assert self.running.health().state == "failing"
        assert self.standing().state is State.FAILING


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("weft.engine.batches.lifecycle._LOOK_EVERY", 0.0001)
    monkeypatch.setattr("weft.engine.inputs.faults.FIRST_PAUSE", 0.0)
    made = Site(tmp_path, monkeypatch)
    yield made
    made.core.directory.close()


def test_a_thread_that_only_waits_is_not_silent() -> None:
    now = [5.0]
    progress = Progress(clock=lambda: now[0])
    now[0] = 9.0
    assert progress.silent_for == 4
    progress.rest()
    assert progress.silent_for == 0
    progress.note()
    now[0] = 10.0
    assert progress.silent_for == 1


def test_an_engine_that_waits_for_long_is_idle(site: Site) -> None:
    def wait() -> None:
        site.now += 10 * LIMIT
        site.is_idle()

    site.play(wait, wait)


def hang_in_listing(site: Site, hang: Callable[..., Any]) -> None:
    site.patch.setattr("weft.execution.input.listing.Listing.look", hang)


def hang_in_java(site: Site, hang: Callable[..., Any]) -> None:
    site.patch.setattr(site.inputs.frames, "failures", lambda: hang() or {})


def hang_in_tidying(site: Site, hang: Callable[..., Any]) -> None:
    site.patch.setattr(site.core, "tidy", hang)


def hang_in_planning(site: Site, hang: Callable[..., Any]) -> None:
    make = site.core.planning.make
    site.patch.setattr(site.core.planning, "make", lambda *given: hang() or make(*given))
    site.core.planning.forget()
    site.write("a/one.parquet")


def hang_in_retention(site: Site, hang: Callable[..., Any]) -> None:
    site.runner.hang = hang
    site.write("a/one.parquet")


@pytest.mark.parametrize("place", [hang_in_listing, hang_in_java, hang_in_tidying, hang_in_planning, hang_in_retention])
def test_whatever_hangs_is_noticed(site: Site, place: Callable[[Site, Callable[..., Any]], None]) -> None:
    """As it was: only the tasks of a batch were watched, and everything else could hang while /ready was 200."""
    seen: list[tuple[str, Standing]] = []

    def hang(*_: object) -> None:
        for seconds in (LIMIT, PATIENCE + 1):
            site.now += seconds
            seen.append((site.running.health().state, site.standing()))

    site.play(lambda: place(site, hang), lambda: None, lambda: None)
    before, after = seen[:2]
    assert before[0] != "stuck"
    assert before[1].ready
    assert (after[0], after[1].state) == ("stuck", State.STUCK)
    assert "no progress for 661 seconds" in str(after[1].error)
    assert site.running.health().state != "stuck", "it has come back after all"


def test_an_engine_whose_only_source_is_away_fails(site: Site) -> None:
    """As it was: there was nothing to read, so it was idle, and ready."""
    (site.root / "a").rmdir()

    def also_b() -> None:
        site.is_failing()
        assert str(site.root / "a") in str(site.standing().error)
        site.query("b")

    def b_is_away() -> None:
        site.is_idle()  # the queries over the other stream are served
        (site.root / "b").rmdir()

    def both_come() -> None:
        site.is_failing()
        assert 'can be read: "a", "b"' in str(site.standing().error)
        (site.root / "a").mkdir()
        (site.root / "b").mkdir()

    site.play(also_b, b_is_away, both_come, site.is_idle)


def test_a_bad_file_that_was_removed_is_forgotten(site: Site) -> None:
    """As it was: only a commit set the failures back, so the engine counted as failing until rows came."""

    def break_it() -> None:
        site.runner.error = BAD_FILE.format(path=site.root / "a" / "bad.parquet")
        site.write("a/bad.parquet")

    def mend_it() -> None:
        site.is_failing()
        assert site.running.health().failures == 1
        (site.root / "a" / "bad.parquet").unlink()

    def is_well() -> None:
        site.is_idle()
        health = site.running.health()
        assert (health.failures, health.failing_streams) == (0, ())

    site.play(break_it, mend_it, is_well)


def test_why_a_stream_cannot_be_read_is_in_one_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """As it was: "source failed: No such file or directory", of whichever stream and folder."""
    (site.root / "a").rmdir()
    site.play(lambda: None)
    folder = f'the directory "{site.root / "a"}" of stream "a" cannot be read [source_unavailable]'
    assert f'stream "a" cannot be read now: {folder}: No such file or directory' in caplog.text


def test_a_failure_outside_a_batch_is_told(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was: it ended the engine without a word, and the service knew no reason."""
    error = StateCorrupt("file x is damaged", detail="Its digest is another.")

    def fail() -> None:
        raise error

    monkeypatch.setattr(site.core, "tidy", fail)
    site.running._begin()
    site.running._run(0.0)
    assert site.batches.error is error
    assert "batches ended: file x is damaged [state_corrupt]: Its digest is another." in caplog.text
