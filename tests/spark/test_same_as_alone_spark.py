"""The contract of tests/property on real Spark: whole engines over files, played with random schedules."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.support import Place, put, rows
from tests.support.generators.workload import Sizes
from tests.support.harness_api import Inputs, Row
from tests.support.run import run_schedule
from weft.errors import WeftError
from weft.plan.stream import Stream

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SIZES = Sizes(rows=60, batches=5, queries=6, crowds=0.0, partitions=3)
FORMATS = ("parquet", "arrow")


class Crashed(BaseException):
    """What a batch dies of here."""


class SparkHarness:
    """An engine on Spark whose streams are folders; a batch is what was put into them since the last."""

    def __init__(self, place: Place, streams: Sequence[Stream], partitions: int) -> None:
        self._place = place
        self._formats = {stream.name: FORMATS[at % len(FORMATS)] for at, stream in enumerate(streams)}
        self._written: Inputs | None = None
        self._reads = 0
        self.engine = place.engine(partitions=partitions)
        for stream in streams:
            folder = place.root / stream.name
            folder.mkdir()
            source = weft.files(folder, format=self._formats[stream.name], schema=stream.schema.ddl())
            self.engine.stream(stream.name, source, time=stream.time, lateness=stream.lateness)
            # A stream that no query reads is not read, and the schedules count every batch.
            sql = f"SELECT {stream.time} FROM {stream.name} WHERE {stream.time} IS NULL"
            self.engine.create(sql, name=f"keeps-{stream.name}-read")

    def create(self, sql: str, name: str) -> None:
        self.engine.create(sql, name=name)

    def create_many(self, items: Sequence[tuple[str, str]]) -> None:
        self.engine.create_many([(name, sql) for sql, name in items])

    def drop(self, name: str) -> None:
        self.engine.query(name).drop()

    def batch(self, inputs: Inputs) -> None:
        self._write(inputs)
        self.engine.step()
        self._written = None

    def _write(self, inputs: Inputs) -> None:
        """Files of a batch that has died before are there already."""
        if self._written is not inputs:
            self._written = inputs
            for name, pieces in inputs.items():
                for piece in pieces:
                    number = len(os.listdir(self._place.root / name))
                    put(self._place.root / name, pa.Table.from_batches([piece]), f"{number}.{self._formats[name]}")

    def crash_during(self, inputs: Inputs, point: str) -> None:
        """Fail where the point says, then take the state directory as it is at that moment."""
        self._write(inputs)
        if point == "after_commit":
            self.engine.step()
        else:
            self._fail(point)
            with pytest.raises((WeftError, Crashed)):
                self.engine.step()
        image = self._place.root / "image"
        shutil.copytree(self._place.state, image)
        self._place.close()
        shutil.rmtree(self._place.state)
        image.rename(self._place.state)

    def _fail(self, point: str) -> None:
        runner: Any = self.engine._batches._runner
        real = runner.run

        def run(*arguments: Any) -> Any:
            if point != "after_changelog":
                real(*arguments)
            raise Crashed

        runner.run = run

    def reopen(self, partitions: int) -> None:
        self.engine = self._place.engine(partitions=partitions)

    def committed_batches(self) -> int:
        return self.engine.core.next_batch

    def complete_from(self, name: str) -> datetime | None:
        return self.engine.query(name).complete_from

    def results(self, name: str) -> Sequence[Row]:
        """Through Spark and directly, by turns."""
        self._reads += 1
        query = self.engine.query(name)
        return rows(query) if self._reads % 2 else [tuple(row) for row in query.tail()]


_STARTED = int(time.time())


@pytest.mark.parametrize("seed", [3, 12, 35, 42, 53, *(pytest.param(_STARTED + n, id=f"new{n}") for n in range(2))])
def test_same_as_alone(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    place = Place(tmp_path, spark)
    try:
        run_schedule(
            seed, lambda path, streams, *, partitions: SparkHarness(place, streams, partitions), tmp_path, SIZES
        )
    finally:
        place.close()
