"""The real engine core and the real tag, probe and commit code in this process, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from tests.support.oracles.project import project
from tests.support.read_results import read_chunk
from weft.engine.core import Core
from weft.execution.results.read import chunks_of, plan_reading
from weft.execution.stages import run_here
from weft.plan.stream import Stream
from weft.planner.joins.planners import Planner, plan_probes
from weft.planner.strategy import choose_strategy
from weft.sql import bind
from weft.storage.directory import Directory

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Crash(BaseException):
    """The process dies here."""


class CoreHarness:
    """An engine whose batches are run in this process."""

    def __init__(
        self, path: Path, streams: Sequence[Stream], *, partitions: int, planner: Planner = plan_probes
    ) -> None:
        self._path = path
        self._planner = planner
        self._partitions = partitions
        self.core = Core(Directory.open(path), planner=planner)
        for stream in streams:
            self.core.add_stream(stream)

    def create(self, sql: str, name: str) -> None:
        self.create_many([(sql, name)])

    def create_many(self, items: Sequence[tuple[str, str]]) -> None:
        self.core.submit(create=[(name, bind(sql, self.core.streams)) for sql, name in items])

    def drop(self, name: str) -> None:
        self.core.submit(drop=[self.core.roster.names[name]])

    def batch(self, inputs: Mapping[str, Sequence[pa.RecordBatch]]) -> None:
        self._run(inputs, "")

    def crash_during(self, inputs: Mapping[str, Sequence[pa.RecordBatch]], point: str) -> None:
        try:
            self._run(inputs, point)
        except Crash:
            return
        raise AssertionError(f"did not crash at {point}")

    def _run(self, inputs: Mapping[str, Sequence[pa.RecordBatch]], point: str) -> None:
        def passing(at: str) -> None:
            if at == point:
                raise Crash(at)

        core = self.core
        begun = core.begin(core.next_batch, partitions=self._partitions)
        assert begun is not None
        program, task = begun
        passing("after_changelog")
        reports = run_here(program, task, self._tables(inputs), passing=passing)
        passing("before_commit")
        core.commit(task.batch, reports)
        passing("after_commit")

    def _tables(
        self, inputs: Mapping[str, Sequence[pa.RecordBatch]]
    ) -> Iterator[tuple[str, pa.Table, tuple[str, ...]]]:
        for name, pieces in inputs.items():
            for piece in pieces:
                yield name, pa.Table.from_batches([piece]), ()

    def reopen(self, partitions: int) -> None:
        self.core.directory.close()
        self._partitions = partitions
        self.core = Core(Directory.open(self._path), planner=self._planner)

    def committed_batches(self) -> int:
        return self.core.next_batch

    def complete_from(self, name: str) -> datetime | None:
        start = self._record(name).start
        return None if start is None else EPOCH + timedelta(microseconds=start)

    def results(self, name: str) -> list[tuple[object, ...]]:
        record = self._record(name)
        query = self.core.roster.bound_query(record.id)
        data = str(self.core.directory.path("data"))
        reading = plan_reading(record, query, choose_strategy(query, record.route), self.core.streams, data=data)
        rows: list[tuple[object, ...]] = []
        for chunk in chunks_of(reading, self.core.inventory.results):
            table = read_chunk(reading, chunk)
            if query.aggregation is not None:
                rows += project(table, query)
                continue
            columns = [table.column(output.source).to_pylist() for output in query.outputs if output.source]
            assert len(columns) == len(query.outputs), "the harness projects plain columns only"
            rows += zip(*columns, strict=True)
        return rows

    def _record(self, name: str):  # type: ignore[no-untyped-def]
        return max((r for r in self.core.roster.records.values() if r.name == name), key=lambda r: int(r.id[1:]))


def open_harness(path: Path, streams: Sequence[Stream], *, partitions: int) -> CoreHarness:
    return CoreHarness(path, streams, partitions=partitions)
