"""DuckDB and Polars over all rows in one batch: what no streaming system can be expected to reach.

They know all rows from the beginning, keep no state and deliver nothing: rows of joins are counted, aggregates are
computed. Polars is needed by nothing else; where it is missing, its limit says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import assert_never

import duckdb

from weft_bench.systems import limit_duckdb, limit_polars
from weft_bench.systems.limit_files import Chunk, RowFile, chunks, files_of
from weft_bench.systems.shared_pass import AggregatePass, JoinPass, SharedPass, shared_pass
from weft_bench.workloads.model import Dialect, Workload
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import CannotSay


class Limit(StrEnum):
    """How the batch is run: each query apart by its own text, or one pass for all."""

    DUCKDB = "duckdb"
    DUCKDB_SHARED = "duckdb-shared"
    POLARS = "polars"


@dataclass(frozen=True, slots=True)
class Shot:
    """A batch that was run."""

    rows: int
    """Input rows of all streams."""
    seconds: float
    results: tuple[int, ...]
    """Result rows of each query."""

    @property
    def rows_per_second(self) -> float:
        """Input rows of all streams together."""
        return self.rows / self.seconds


def limit(name: Limit, workload: Workload, queries: int, *, folder: Path) -> Shot:
    """Run the first queries of a workload over the files in folder/<stream>; raises CannotSay where that cannot be."""
    batch = _Batch(workload, queries, {stream.name: files_of(folder, stream.name) for stream in workload.streams})
    run = _ready(name, batch)
    begin = time.monotonic()
    results = run()
    return Shot(batch.rows, time.monotonic() - begin, tuple(results))


@dataclass(frozen=True, slots=True)
class _Batch:
    workload: Workload
    queries: int
    files: Mapping[str, Sequence[RowFile]]

    @property
    def rows(self) -> int:
        return sum(each.rows for stream in self.files.values() for each in stream)

    def asked(self) -> SharedPass:
        made = self.workload.queries
        if not isinstance(made, QueryList):
            raise CannotSay(f'no shared pass: the shapes of the queries of "{self.workload.name}" are not known')
        return shared_pass([made.shape(number) for number in range(self.queries)])

    def paths(self, stream: str) -> list[str]:
        return [each.path for each in self.files[stream]]

    def chunks(self, asked: JoinPass) -> list[Chunk]:
        left, right = (self.files[each.stream] for each in asked.relations)
        return list(chunks(left, right, asked.widest))


def _ready(name: Limit, batch: _Batch) -> Callable[[], Sequence[int]]:
    """All that is to be done, but for doing it."""
    match name:
        case Limit.DUCKDB:
            return _ready_apart(batch)
        case Limit.DUCKDB_SHARED:
            return _ready_shared(batch, limit_duckdb.count_joins, limit_duckdb.count_groups)
        case Limit.POLARS:
            limit_polars.polars()  # importing it is not measured
            return _ready_shared(batch, limit_polars.count_joins, limit_polars.count_groups)
        case _:
            assert_never(name)


def _ready_shared(
    batch: _Batch,
    joins: Callable[[JoinPass, Iterable[Chunk]], Sequence[int]],
    groups: Callable[[AggregatePass, Sequence[str]], Sequence[int]],
) -> Callable[[], Sequence[int]]:
    asked = batch.asked()
    match asked:
        case JoinPass():
            return partial(joins, asked, batch.chunks(asked))
        case AggregatePass():
            return partial(groups, asked, batch.paths(asked.relation.stream))
        case _:
            assert_never(asked)


def _ready_apart(batch: _Batch) -> Callable[[], Sequence[int]]:
    specs = batch.workload.queries(batch.queries)
    missing = [spec for spec in specs if Dialect.DUCKDB not in spec.texts]
    if missing:
        raise CannotSay(f'query "{missing[0].name}": {missing[0].why_not.get(Dialect.DUCKDB, "DuckDB has no text")}')
    texts = [spec.texts[Dialect.DUCKDB] for spec in specs]
    with suppress(CannotSay):
        asked = batch.asked()
        if isinstance(asked, JoinPass):
            return _ready_joins_apart(texts, asked, batch)
    # The largest of everything is asked for: what nobody looks at would not be computed.
    whole = [{stream: tuple(batch.paths(stream)) for stream in batch.files}]
    return partial(_count_apart, [f"SELECT count(*), max(COLUMNS(*)) FROM ({text})" for text in texts], whole)


def _ready_joins_apart(texts: Sequence[str], asked: JoinPass, batch: _Batch) -> Callable[[], Sequence[int]]:
    left, right = (each.stream for each in asked.relations)
    stretches = [{left: chunk.left, right: chunk.right} for chunk in batch.chunks(asked)]
    return partial(_count_apart, [f"SELECT count(*) FROM ({text})" for text in texts], stretches)


def _count_apart(texts: Sequence[str], stretches: Sequence[Mapping[str, tuple[str, ...]]]) -> list[int]:
    totals = [0] * len(texts)
    with duckdb.connect() as connection:
        for files in stretches:
            for stream, paths in files.items():
                connection.execute(f"CREATE OR REPLACE VIEW {stream} AS SELECT * FROM read_parquet({list(paths)})")
            for number, text in enumerate(texts):
                found = connection.execute(text).fetchone()
                totals[number] += 0 if found is None else int(found[0])
    return totals
