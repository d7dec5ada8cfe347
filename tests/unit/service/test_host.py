"""The thread that keeps an engine running: later and later after failures, and not at all without Java."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.engine_sample import stream
from weft.engine.batches.lifecycle import Health
from weft.engine.catalog import Catalog
from weft.engine.core import Core
from weft.engine.engine import Engine
from weft.errors import BatchFailed, DiskFull, DuplicateStream, EngineStopped, InvalidStream, SparkLost, WeftError
from weft.plan.stream import FileSource, Format, Stream
from weft.service import host as module
from weft.service import open_engine as opening
from weft.service.added_streams import read_added, write_added
from weft.service.config import Config, EngineSection, StreamSpec
from weft.service.embedded import EmbeddedHost
from weft.service.health import State
from weft.service.host import EngineHost
from weft.service.open_engine import declare_all
from weft.service.tenancy.secrets import Secrets
from weft.storage.directory import Directory

Step = Callable[[], object]


class Script:
    """Stands where the thread waits for its next look, or for its next try: each time the next step is taken."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)
        self.waits: list[float] = []
        self._over = False

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if self._steps:
            self._steps.pop(0)()
        else:
            self._over = True
        return self._over

    def set(self) -> None:
        self._over = True

    def is_set(self) -> bool:
        return self._over


class Fragile:
    """An engine that ends as often as a test wants it to."""

    def __init__(self, path: Path) -> None:
        self.core = Core(Directory.open(path))
        self.core.add_stream(stream("a"))
        self.catalog = Catalog(self.core)
        self.spark = SimpleNamespace(stop=lambda: None)
        self.summaries = ["of the batches before"]
        self.error: WeftError | None = None
        self.alive = False
        self.starts = 0
        self.failing = self.lost = self.refusing = False
        self.dropped: list[str] = []
        self.lost_streams: dict[str, WeftError] = {}

    @property
    def running(self) -> bool:
        if self.lost:
            raise ConnectionRefusedError("Answer from Java side is empty")
        return self.alive

    def start(self, trigger: str) -> None:
        if self.refusing:
            raise InvalidStream("its source is gone")
        self.starts += 1
        self.alive = not self.failing
        self.error = BatchFailed("batch 0 failed", detail="unmistakable cause") if self.failing else None

    def stop(self) -> None:
        raise AssertionError("not asked for here")

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        self.dropped.append(name)

    def streams(self) -> tuple[Stream, ...]:
        return tuple(self.catalog.declared_streams().values())

    def health(self) -> Health:
        return Health("running", 0, 0.0 if self.core.running is None else 5.0, None, tuple(self.lost_streams))

    def lose_stream(self, name: str, error: WeftError) -> None:
        self.lost_streams[name] = error

    def stream_errors(self) -> dict[str, WeftError]:
        return dict(self.lost_streams)


@pytest.fixture
def fragile(tmp_path: Path) -> Fragile:
    return Fragile(tmp_path / "state")


@pytest.fixture
def host(fragile: Fragile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineHost:
    monkeypatch.setattr(module, "open_engine", lambda *_: cast(Engine, fragile))
    monkeypatch.setattr(module, "java_status", lambda: None)
    return EngineHost(Config(engine=EngineSection(path=tmp_path / "state")))


def play(host: EngineHost, *steps: Step) -> Script:
    """Run what the thread runs, here."""
    script = host._stop = Script(steps)  # type: ignore[assignment]
    host._run()
    host.observer.stop()
    return script


def nothing() -> None:
    """A look finds what the one before has found."""


def test_an_engine_that_always_fails_is_never_ready(
    host: EngineHost, fragile: Fragile, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was: each look at a moment's life made it ready, and the pause began anew (C3)."""
    states: list[State] = []

    def look() -> None:
        states.append(host.standing.state)

    def die() -> None:
        look()
        fragile.alive, fragile.error = False, BatchFailed("batch 0 failed", detail="unmistakable cause")

    # It lives for a look or two after each start, and dies then.
    script = play(host, *[look, die, look] * 5)
    assert states[0] is State.RUNNING
    assert states[2:] == [State.FAILING] * (len(states) - 2)
    pauses = [wait for wait in script.waits if wait != module._LOOK_EVERY]
    assert pauses[:4] == [1, 2, 4, 8]
    assert host.standing.failures == 5
    assert "batch 0 failed [batch_failed]: unmistakable cause" in caplog.text
    assert "next try in 16 s" in caplog.text


def test_it_runs_again_after_a_commit(host: EngineHost, fragile: Fragile, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[State] = []
    host.on_batch = lambda: heard.append(host.standing.state)

    def die() -> None:
        fragile.alive = False

    def commit() -> None:
        fragile.core.next_batch += 1

    with caplog.at_level(logging.INFO):
        play(host, die, nothing, nothing, commit)
    assert host.standing.ready
    assert heard == [State.FAILING, State.RUNNING]
    assert "engine is running again; it was failing" in caplog.text


def test_a_start_that_fails_is_a_failure(host: EngineHost, fragile: Fragile) -> None:
    def die() -> None:
        fragile.alive, fragile.refusing = False, True

    script = play(host, die, nothing, nothing, nothing)
    assert [wait for wait in script.waits if wait != module._LOOK_EVERY] == [1, 2, 4, 8]
    assert host.standing.state is State.FAILING


def test_without_java_the_service_ends_with_the_reason(
    host: EngineHost, fragile: Fragile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was: the look raised, its thread ended, and the service was ready for ever (C4)."""
    ended: list[str] = []
    host.on_fatal = lambda: ended.append(str(host.fatal_error))

    def lose() -> None:
        fragile.lost = True

    def kill() -> None:
        monkeypatch.setattr(module, "java_status", lambda: -9)

    play(host, nothing, lose, kill, nothing, nothing)
    assert "killed by signal 9" in ended[0]
    assert host.standing.state is State.FAILED
    assert "Java process" in caplog.text
    with pytest.raises(EngineStopped):
        _ = host.engine
    host._thread = cast(threading.Thread, SimpleNamespace(join=nothing))
    assert host.standing.state is State.FAILED
    host.stop()  # an engine without Java cannot be stopped as usual
    assert host.standing.state is State.STOPPING
    Directory.open(fragile.core.directory.root).close()


def test_a_full_disk_does_not_keep_the_service_from_stopping(
    host: EngineHost, fragile: Fragile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, it ended with a traceback, and Spark was not stopped."""

    def stop() -> None:
        raise DiskFull("no space left while writing checkpoints/000000000001.json")

    play(host, nothing)
    stopped: list[bool] = []
    monkeypatch.setattr(fragile, "stop", stop)
    monkeypatch.setattr(fragile.spark, "stop", lambda: stopped.append(True))
    host._thread = cast(threading.Thread, SimpleNamespace(join=nothing))
    host.stop()
    assert stopped == [True]
    assert "without a last checkpoint: no space left" in caplog.text


def test_without_a_context_in_a_living_java_the_service_ends(host: EngineHost, fragile: Fragile) -> None:
    """As it was: the engine was started again and again, and could never run."""
    ended: list[str] = []
    host.on_fatal = lambda: ended.append(str(host.fatal_error))
    context = SimpleNamespace(isStopped=lambda: True)
    fragile.spark.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context))

    def die() -> None:
        fragile.alive, fragile.error = False, SparkLost("batch 0 failed: Spark was stopped")

    script = play(host, nothing, die, nothing)
    assert "Spark was stopped" in ended[0]
    assert host.standing.state is State.FAILED
    assert set(script.waits) == {module._LOOK_EVERY}, "it was not tried again"


def test_a_look_that_takes_too_long_is_noticed(host: EngineHost, monkeypatch: pytest.MonkeyPatch) -> None:
    play(host, nothing)
    assert host.standing.ready
    host._looks_by = 0.0
    assert host.standing.state is State.STUCK
    assert "does not answer" in str(host.standing.error)


def test_a_batch_that_hangs_is_noticed(
    host: EngineHost, fragile: Fragile, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[State] = []
    host.on_batch = lambda: heard.append(host.standing.state)

    def hang() -> None:
        fragile.core.running = 0
        host._pulse._limit = -1.0

    play(host, hang)
    assert heard == [State.STUCK]
    assert "engine is stuck: batch 0 has been running" in caplog.text


def test_the_first_stream_starts_the_engine(host: EngineHost, fragile: Fragile) -> None:
    a = fragile.core.streams.pop("a")

    def come() -> None:
        assert host.standing.ready
        assert fragile.starts == 0
        fragile.core.streams["a"] = a

    play(host, nothing, come)
    assert fragile.starts == 1
    assert host.standing.failures == 0


def test_a_stream_is_dropped_for_good(host: EngineHost, fragile: Fragile) -> None:
    play(host)
    directory = fragile.core.directory
    write_added(directory, [StreamSpec(name=name, format="rate", time="timestamp") for name in ("one", "two")])
    host.drop_stream("one", cascade=False)
    assert fragile.dropped == ["one"]
    assert [spec.name for spec in read_added(directory)] == ["two"]
    assert directory.path("added-streams.json").stat().st_mode & 0o077 == 0


def test_a_stream_of_the_configuration_would_come_back(host: EngineHost, fragile: Fragile, tmp_path: Path) -> None:
    host._config = Config(
        engine=EngineSection(path=tmp_path), streams=(StreamSpec(name="a", path=str(tmp_path), time="ts"),)
    )
    play(host)
    with pytest.raises(InvalidStream, match="configuration file"):
        host.drop_stream("a", cascade=True)
    assert fragile.dropped == []


@pytest.mark.parametrize(
    ("health", "error", "state"),
    [
        ("running", None, State.RUNNING),
        ("idle", None, State.RUNNING),
        ("stopped", None, State.RUNNING),
        ("stopped", BatchFailed("batch 0 failed"), State.FAILED),
        ("failing", BatchFailed("batch 0 failed"), State.FAILING),
        ("stuck", None, State.STUCK),
    ],
)
def test_a_visitor_says_what_the_engine_says(
    fragile: Fragile, monkeypatch: pytest.MonkeyPatch, health: str, error: WeftError | None, state: State
) -> None:
    fragile.error = error
    monkeypatch.setattr(Fragile, "health", lambda self: Health(health, 0, 0.0, None, ()))
    assert EmbeddedHost(cast(Engine, fragile)).standing.state is state


def declaring(
    fragile: Fragile, monkeypatch: pytest.MonkeyPatch, errors: dict[str, Exception]
) -> Callable[[], list[str]]:
    """Declares streams of a configuration, some of which raise; tells which were declared."""
    declared: list[str] = []

    def declare(_: Engine, spec: StreamSpec, __: Secrets) -> None:
        if spec.name in errors:
            raise errors[spec.name]
        declared.append(spec.name)

    def run() -> list[str]:
        specs = [StreamSpec(name=name, format="rate", time="timestamp") for name in ("a", "b")]
        declare_all(cast(Engine, fragile), specs, Secrets())
        return declared

    monkeypatch.setattr(opening, "declare", declare)
    return run


@pytest.mark.parametrize("error", [InvalidStream("no such source"), OSError(5, "Input/output error")])
def test_a_known_stream_that_is_away_ends_no_service(
    host: EngineHost, fragile: Fragile, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """As it was: the service did not start, and the queries over all other streams waited, too."""
    assert declaring(fragile, monkeypatch, {"a": error})() == ["b"]
    assert list(fragile.lost_streams) == ["a"]
    play(host, nothing)
    assert host.standing.ready
    assert host.standing.failing_streams == ("a",)


def test_files_that_are_away_are_read_when_they_come(
    fragile: Fragile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fragile.core.streams["a"] = replace(stream("a"), source=FileSource("/mnt/away", Format.JSON))
    assert declaring(fragile, monkeypatch, {"a": OSError(5, "Input/output error")})() == ["b"]
    assert not fragile.lost_streams, "its listing is tried again by itself"
    assert 'the source of stream "a" cannot be opened [source_unavailable]' in caplog.text
    assert "Input/output error" in caplog.text


@pytest.mark.parametrize(
    ("name", "error"), [("a", DuplicateStream("it is another one")), ("b", InvalidStream("no such source"))]
)
def test_a_wrong_configuration_is_told_at_once(
    fragile: Fragile, monkeypatch: pytest.MonkeyPatch, name: str, error: WeftError
) -> None:
    with pytest.raises(type(error)):
        declaring(fragile, monkeypatch, {name: error})()
    assert not fragile.lost_streams
