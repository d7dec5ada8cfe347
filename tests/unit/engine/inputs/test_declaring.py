"""Streams of an engine: one is dropped with exactly the queries that read it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.engine_sample import open_core
from tests.support.harness import CoreHarness
from weft.engine.core import Core
from weft.engine.inputs.declaring import Declaring
from weft.errors import StreamInUse


class Engine(Declaring):
    """As much of an engine as it takes, with a batch that ends when a stream waits for it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.forgotten: list[str] = []
        inputs: Any = SimpleNamespace(forget=self.forgotten.append)
        batches: Any = SimpleNamespace(between=lambda work: (core.abort(), work()))
        self._inputs, self._batches = inputs, batches

    def _check_open(self) -> None:
        """It is open."""


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    made = open_core(tmp_path / "state")
    made.create("SELECT x FROM a", "q")
    return made


def test_a_stream_goes_with_a_query_whose_drop_waits(harness: CoreHarness) -> None:
    """As it was: the query was looked up by the name that it had given away, which raised KeyError."""
    engine = Engine(harness.core)
    harness.core.begin(0, partitions=2)
    harness.drop("q")
    engine.drop_stream("a", cascade=True)
    assert "a" not in harness.core.streams
    assert engine.forgotten == ["a"]


def test_a_query_over_another_stream_that_has_the_name_now_stays(harness: CoreHarness) -> None:
    """As it was: the new query was dropped, which has nothing to do with the stream."""
    harness.core.begin(0, partitions=2)
    harness.drop("q")
    harness.create("SELECT x FROM b", "q")
    Engine(harness.core).drop_stream("a", cascade=True)
    assert [live.record.streams for live in harness.core.roster.live.values()] == [("b",)]


def test_who_reads_it_is_named(harness: CoreHarness) -> None:
    with pytest.raises(StreamInUse, match='is read by query "q"'):
        Engine(harness.core).drop_stream("a")
