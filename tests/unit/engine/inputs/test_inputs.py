"""What there is to read: a source that has failed is well again when it can be read, whether it has rows or not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.engine_sample import stream
from weft.engine.core import Core
from weft.engine.inputs.declare import declare_stream, files
from weft.engine.inputs.inputs import Inputs
from weft.errors import SourceUnavailable
from weft.spark.stream_frames import FrameReader, Frames
from weft.sql import bind
from weft.storage.directory import Directory

GONE = SourceUnavailable("it is gone")


class Spark:
    """Stands for a DataFrame, its writer and its streaming query."""

    def __init__(self) -> None:
        self.status = {"isTriggerActive": False, "message": "Initializing sources"}
        self.isActive = True
        self.writeStream = self

    def foreachBatch(self, _: object) -> Spark:
        return self

    def option(self, *_: object) -> Spark:
        return self

    def trigger(self, **_: object) -> Spark:
        return self

    def start(self) -> Spark:
        return self

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


class Site:
    """Inputs with a stream of files ("a") and one of a DataFrame ("b"), each with a query."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "a"
        self.folder.mkdir()
        self.core = Core(Directory.open(root / "state"))
        source = files(self.folder, schema="ts TIMESTAMP, x INT")
        self.core.add_stream(declare_stream("a", source, time="ts", lateness=timedelta(0), retain=None, existing=None))
        self.core.add_stream(stream("b"))
        self.queries = {
            name: self.core.submit(create=[(name, bind(f"SELECT x FROM {name}", self.core.streams))]).created[0][0]
            for name in "ab"
        }
        self.frames = Frames(root / "spark", arrived=lambda: None)
        self.spark = Spark()
        self.frames.attached["b"] = self.spark  # type: ignore[assignment]
        self.inputs = Inputs(self.core, self.frames, threading.Event())
        self.inputs.start("0 milliseconds")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("weft.engine.inputs.faults.FIRST_PAUSE", 0.0)
    made = Site(tmp_path)
    yield made
    made.core.directory.close()


def test_files_that_can_be_listed_again_are_well(site: Site) -> None:
    """As it was: only rows of the stream that were committed ended its fault, and its partners waited for it."""
    site.folder.rmdir()
    assert site.inputs.look().failing == {"a"}
    site.folder.mkdir()
    assert site.inputs.look().failing == frozenset()
    assert site.inputs.faults() == {}


def test_files_that_could_not_be_read_are_to_be_committed_first(site: Site) -> None:
    (site.folder / "one.parquet").write_text("rows")
    offer = site.inputs.look()
    site.inputs.refuse("a", GONE)
    assert site.inputs.look().failing == {"a"}
    site.inputs.done(offer)
    assert site.inputs.look().failing == frozenset()


def test_a_dataframe_that_is_read_again_and_has_nothing_is_well(site: Site) -> None:
    site.inputs.refuse("b", GONE)
    site.spark.isActive = True
    assert site.inputs.look().failing == {"b"}, "it has not asked its source yet"
    site.spark.status = {"isTriggerActive": True, "message": "Getting offsets from it"}
    assert site.inputs.look().failing == {"b"}
    site.spark.status = {"isTriggerActive": False, "message": "Waiting for data to arrive"}
    assert site.inputs.look().failing == frozenset()


def test_a_stream_that_nobody_reads_has_no_fault(site: Site) -> None:
    site.inputs.refuse("b", GONE)
    site.core.submit(drop=[site.queries["b"]])
    site.inputs.look()
    assert site.inputs.faults() == {}


def test_a_reader_that_ends_while_others_look_at_all_is_no_error(site: Site) -> None:
    """As it was: `drop_stream` took a reader away while the thread of the batches went through them."""
    readers = site.frames._readers

    class Ending:
        """A reader that is taken away when it is asked."""

        @property
        def is_quiet(self) -> bool:
            readers.pop("b", None)
            readers["another"] = SimpleNamespace(is_quiet=True, active=True)  # type: ignore[assignment]
            return True

    ending: Any = Ending()
    readers["b"] = ending
    assert not site.inputs._is_unsettled()


def test_a_context_that_was_stopped_is_no_fault_of_a_source(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: every DataFrame was tried again for ever in a Spark that has ended."""

    def start(*_: object) -> None:
        raise RuntimeError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")

    site.frames.stop("b")
    monkeypatch.setattr(site.frames, "start", start)
    with pytest.raises(RuntimeError, match="stopped SparkContext"):
        site.inputs.look()
    assert site.inputs.faults() == {}


def test_a_reader_with_a_micro_batch_that_waits_has_found_something(tmp_path: Path) -> None:
    spark: Any = Spark()
    reader = FrameReader("b", spark, tmp_path, lambda _: None)
    assert not reader.found_nothing
    reader.start("0 milliseconds")
    spark.status = {"isTriggerActive": False, "message": "Waiting for next trigger"}
    assert reader.found_nothing
    reader._waiting = SimpleNamespace()  # type: ignore[assignment]
    assert not reader.found_nothing
